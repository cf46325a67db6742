// rank_step.cpp: runs an engine on rank 0 and lets the others follow.
#include "llm/rank_step.hpp"

#include <algorithm>

#include "llm/engine_runs.hpp"

namespace bench {

using namespace attacca::llm;
using attacca::Device;
using attacca::Group;

namespace {
constexpr std::size_t kTokens = 64;
}  // namespace

double rank_step_us(const Model& model, const Device& device, int ranks,
                    attacca::Transport transport, const RankStep& step) {
  double time = 0;
  attacca::run_loopback(ranks, [&](const Group& group) {
    EngineOptions options;
    options.device = device.is_cuda() ? device : Device::host(1);
    options.slots = 1;
    options.context = std::min<std::size_t>(model.context(), 512);
    options.rank_transport = transport;
    options.fuses_rank_sums = step.fuses_sums;
    if (ranks > 1) options.ranks = group;
    if (group.rank() != 0) return follow(model, options);
    Engine engine(model, options);
    Request request;
    request.tokens = random_tokens(model, 8, 1);
    request.max_tokens = kTokens;
    request.ignores_end = true;
    if (step.top_k > 0) request.sampling = {.temperature = 1, .top_k = step.top_k};
    engine.generate(request);
    engine.wait_until_idle();
    const EngineStats before = engine.stats();
    engine.generate(request);
    engine.wait_until_idle();
    const EngineStats after = engine.stats();
    time = (after.seconds_busy - before.seconds_busy) * 1e6 /
           static_cast<double>(after.steps - before.steps);
  });
  return time;
}

}  // namespace bench
