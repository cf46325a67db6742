// Tests of the form of decode steps: as one persistent kernel they give the same tokens as a graph
// of kernels, in every loop, and an engine says which form its steps have and why.
#include <gmock/gmock.h>
#include <attacca/llm.hpp>

#include "engine/fixtures.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::step_form_test {
namespace {

using namespace llm;
using engine_tests::expected;
using engine_tests::fixture;
using engine_tests::greedy;
using testing::HasSubstr;

class SmallStepForm : public OnEachDevice {
 protected:
  EngineOptions options(StepForm form) const {
    EngineOptions options;
    options.device = device();
    options.context = 64;
    options.slots = 4;
    options.step_tokens = 48;
    options.step_form = form;
    return options;
  }
  static std::vector<std::vector<std::int32_t>> tokens_of(const Model& model,
                                                          const EngineOptions& options,
                                                          const std::vector<Request>& requests) {
    Engine engine(model, options);
    std::vector<std::vector<std::int32_t>> tokens;
    for (const Reply& reply : engine.generate(requests)) tokens.push_back(reply.tokens);
    return tokens;
  }
};
ATTACCA_ON_EACH_DEVICE(SmallStepForm);

/// One request at a time, so that both forms compute the same batches. The models are in bf16:
/// llama, with biases, and with norms of queries and keys.
TEST_P(SmallStepForm, gives_the_same_tokens_in_every_loop) {
  for (const char* name : {"llama3-rope", "qwen2", "qwen3"}) {
    const Model model(fixture(name));
    const std::vector<Request> request{greedy(expected(name).prompt, 12)};
    const auto tokens = tokens_of(model, options(StepForm::kernels), request);
    ASSERT_EQ(tokens.front().size(), 12u);
    for (const auto& [scheduler, loop] :
         {std::pair(llm::Scheduler::host, ResidentLoop::self_relaunch),
          std::pair(llm::Scheduler::resident, ResidentLoop::self_relaunch),
          std::pair(llm::Scheduler::resident, ResidentLoop::while_node)}) {
      SCOPED_TRACE(std::string(name) + ", " + scheduler_name(scheduler) + ", " +
                   resident_loop_name(loop));
      EngineOptions one = options(StepForm::persistent);
      one.scheduler = scheduler;
      one.resident_loop = loop;
      EXPECT_EQ(tokens_of(model, one, request), tokens);
    }
  }
}

TEST_P(SmallStepForm, gives_the_same_tokens_to_a_batch) {
  const Model model(fixture("qwen3"));
  const std::vector<std::int32_t> prompt = expected("qwen3").prompt;
  const std::vector<Request> requests(3, greedy(prompt, 10));
  EXPECT_EQ(tokens_of(model, options(StepForm::persistent), requests),
            tokens_of(model, options(StepForm::kernels), requests));
}

TEST_P(SmallStepForm, is_explained_where_there_is_a_choice) {
  const auto explained = [&](const char* name, StepForm form) {
    return Engine(Model(fixture(name)), options(form)).explain_steps();
  };
  EXPECT_EQ(explained("qwen3", StepForm::kernels), "");
  EXPECT_EQ(explained("qwen3", StepForm::automatic),
            is_cuda() ? "decode steps are graphs of kernels, not one kernel: it was not measured "
                        "faster for a model and a step of this size"
                      : "");
  EXPECT_THAT(explained("qwen3", StepForm::persistent),
              HasSubstr(is_cuda() ? "one persistent kernel" : "the host has no such kernel"));
  EXPECT_THAT(explained("llama", StepForm::persistent),  // F32
              HasSubstr(is_cuda() ? "not streamed" : "the host has no such kernel"));
}

}  // namespace
}  // namespace attacca::test::step_form_test
