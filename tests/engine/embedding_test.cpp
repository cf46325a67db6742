// Tests of embeddings: hidden states behind the final norm, pooled over the tokens of a prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/fixtures.hpp"
#include "model/checkpoint.hpp"
#include "model/small_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using llm::Engine;
using llm::EngineOptions;
using llm::Finish;
using llm::Model;
using llm::Pooling;
using llm::Reply;
using llm::Request;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tokens = std::vector<std::int32_t>;

class Embeddings : public test::OnEachDevice {
 protected:
  EngineOptions options() const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = 128;
    options.slots = 4;
    options.step_tokens = 48;
    return options;
  }
  static Request embed(Tokens tokens, Pooling pooling) {
    Request request;
    request.tokens = std::move(tokens);
    request.embed = pooling;
    return request;
  }

  const Model model_{fixture("llama")};
  const Tokens text_ = text_of("llama");
};
ATTACCA_ON_EACH_DEVICE(Embeddings);

TEST_P(Embeddings, times_the_head_are_the_logits) {
  const Expected right = expected("llama");
  const model::Checkpoint checkpoint = model::Checkpoint::open(fixture("llama"));
  const formats::Tensor& head = checkpoint.head();
  ASSERT_EQ(formats::matrix_of(head).type, kernels::TensorType::f32);
  const auto* const weights = reinterpret_cast<const float*>(head.data);
  Engine engine(model_, options());
  const Reply reply = engine.generate(embed(right.prompt, Pooling::last));
  EXPECT_EQ(reply.finish, Finish::stop);
  EXPECT_TRUE(reply.tokens.empty());
  EXPECT_EQ(reply.prompt_tokens, right.prompt.size());
  const std::size_t hidden = reply.embedding.size();
  ASSERT_EQ(hidden * model_.vocabulary(), head.count());
  for (std::size_t at = 0; at < right.probes.size(); ++at) {
    double logit = 0;
    for (std::size_t column = 0; column < hidden; ++column)
      logit += double{weights[right.probes[at] * hidden + column]} * reply.embedding[column];
    EXPECT_NEAR(logit, right.logits[right.prompt.size() - 1][at], 1e-3);
  }
}

TEST_P(Embeddings, the_mean_is_that_of_the_last_tokens_of_all_beginnings) {
  Engine engine(model_, options());
  const Tokens prompt(text_.begin(), text_.begin() + 21);
  std::vector<double> mean;
  for (long length = 1; length <= 21; ++length) {
    const Reply last =
        engine.generate(embed({prompt.begin(), prompt.begin() + length}, Pooling::last));
    mean.resize(last.embedding.size());
    for (std::size_t at = 0; at < mean.size(); ++at) mean[at] += last.embedding[at] / 21.0;
  }
  const Reply reply = engine.generate(embed(prompt, Pooling::mean));
  ASSERT_EQ(reply.embedding.size(), mean.size());
  for (std::size_t at = 0; at < mean.size(); ++at) EXPECT_NEAR(reply.embedding[at], mean[at], 1e-5);
}

TEST_P(Embeddings, are_the_same_in_every_batch_and_when_pages_run_out) {
  std::vector<Request> requests;
  for (const long length : {1, 5, 16, 17, 40, 60, 90, 33})
    for (const Pooling pooling : {Pooling::last, Pooling::mean}) {
      requests.push_back(embed({text_.begin(), text_.begin() + length}, pooling));
      const auto most = static_cast<std::size_t>(std::min(60L, 128 - length));
      requests.push_back(greedy({text_.begin(), text_.begin() + length}, most));
    }
  std::vector<Reply> alone;
  Engine roomy(model_, options());
  for (const Request& request : requests) alone.push_back(roomy.generate(request));
  EngineOptions scarce = options();
  scarce.pages = 8;
  Engine engine(model_, scarce);
  const std::vector<Reply> replies = engine.generate(requests);
  EXPECT_GT(stats_when_idle(engine).preemptions, 0u);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    EXPECT_EQ(replies[at].embedding, alone[at].embedding) << at;
    EXPECT_EQ(replies[at].tokens, alone[at].tokens) << at;
  }
}

TEST_P(Embeddings, run_between_turns_of_the_loop_on_the_device) {
  std::vector<Request> requests;
  for (const long length : {1, 5, 17, 60, 90})
    for (const Pooling pooling : {Pooling::last, Pooling::mean}) {
      requests.push_back(greedy({text_.begin(), text_.begin() + length}, 30));
      requests.push_back(embed({text_.begin(), text_.begin() + length}, pooling));
    }
  std::vector<Reply> alone;
  Engine by_host(model_, options());
  for (const Request& request : requests) alone.push_back(by_host.generate(request));
  EngineOptions resident = options();
  resident.scheduler = llm::Scheduler::resident;
  for (const llm::ResidentLoop form :
       {llm::ResidentLoop::while_node, llm::ResidentLoop::self_relaunch}) {
    resident.resident_loop = form;
    Engine engine(model_, resident);
    // On a busy machine a loop may generate all it has before the host looks at the embeddings.
    std::uint64_t rounds = 0;
    do {
      const std::vector<Reply> replies = engine.generate(requests);
      for (std::size_t at = 0; at < requests.size(); ++at) {
        EXPECT_EQ(replies[at].embedding, alone[at].embedding) << at;
        EXPECT_EQ(replies[at].tokens, alone[at].tokens) << at;
      }
      engine.wait_until_idle();
      EXPECT_EQ(engine.stats().pages_in_use, 0u);
      ++rounds;
    } while (engine.stats().launches <= rounds && rounds < 50);
    EXPECT_GT(engine.stats().launches, rounds);
  }
}

TEST_P(Embeddings, that_wait_hold_back_no_generation) {
  for (const llm::Scheduler scheduler : {llm::Scheduler::host, llm::Scheduler::resident}) {
    EngineOptions with = options();
    with.scheduler = scheduler;
    Engine engine(model_, with);
    std::atomic<std::size_t> embedded = 0;
    std::vector<llm::Ticket> tickets;
    for (int at = 0; at < 200; ++at) {
      Request request = embed({text_.begin(), text_.begin() + 90}, Pooling::mean);
      request.on_done = [&](const Reply&) { ++embedded; };
      tickets.push_back(engine.submit(request));
    }
    Request request = greedy({text_.begin(), text_.begin() + 9}, 3);
    std::atomic<std::size_t> embedded_first = 0;
    request.on_done = [&](const Reply&) { embedded_first = embedded.load(); };
    tickets.push_back(engine.submit(request));
    const std::size_t embedded_already = embedded;
    for (llm::Ticket& ticket : tickets) EXPECT_NE(ticket.wait().finish, Finish::failed);
    EXPECT_LT(embedded_first, embedded_already + 40);
  }
}

TEST_P(Embeddings, are_cancelled_in_any_place_of_the_resident_scheduler) {
  EngineOptions resident = options();
  resident.scheduler = llm::Scheduler::resident;
  Engine engine(model_, resident);
  std::vector<llm::Ticket> tickets;
  for (int at = 0; at < 40; ++at) {
    tickets.push_back(engine.submit(embed({text_.begin(), text_.begin() + 90}, Pooling::mean)));
    tickets.push_back(engine.submit(greedy({text_.begin(), text_.begin() + 9}, 40)));
  }
  for (std::size_t at = 0; at < tickets.size(); at += 3) tickets[at].cancel();
  for (std::size_t at = 0; at < tickets.size(); ++at) {
    const Reply reply = tickets[at].wait();
    if (at % 3 == 0) continue;
    EXPECT_NE(reply.finish, Finish::failed) << reply.error;
    EXPECT_EQ(reply.embedding.empty(), at % 2 == 1);
  }
  engine.wait_until_idle();
  EXPECT_EQ(engine.stats().requests_running + engine.stats().requests_waiting, 0u);
}

/// Writes a copy of a fixture in which all values of a tensor are not numbers.
void break_tensor(const test::TemporaryFolder& folder, const std::string& name) {
  const std::string from = fixture("llama") + "/";
  std::filesystem::copy(from + "config.json", folder.path());
  std::ifstream file(from + "model.safetensors", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t entry = bytes.find("\"" + name + "\"");
  const std::size_t offsets = bytes.find("data_offsets", entry);
  std::size_t begin = 0, end = 0;
  ASSERT_EQ(std::sscanf(bytes.c_str() + offsets, "data_offsets\":[%zu,%zu]", &begin, &end), 2);
  std::fill(bytes.begin() + static_cast<long>(sizeof header + header + begin),
            bytes.begin() + static_cast<long>(sizeof header + header + end), '\xff');
  folder.write("model.safetensors", bytes);
}

TEST_P(Embeddings, compute_no_logits_unless_somebody_else_does) {
  const test::TemporaryFolder folder;
  break_tensor(folder, "lm_head.weight");
  Engine right(model_, options());
  Engine engine(Model(folder.path()), options());
  EXPECT_EQ(engine.generate(greedy(text_, 3)).finish, Finish::failed) << "logits are no numbers";
  for (const Pooling pooling : {Pooling::last, Pooling::mean}) {
    const Request request = embed({text_.begin(), text_.begin() + 90}, pooling);
    EXPECT_EQ(engine.generate(request).embedding, right.generate(request).embedding);
  }
}

TEST_P(Embeddings, that_are_no_numbers_fail) {
  const test::TemporaryFolder folder;
  break_tensor(folder, "model.norm.weight");
  Engine engine(Model(folder.path()), options());
  const Reply reply = engine.generate(embed(text_, Pooling::mean));
  EXPECT_EQ(reply.finish, Finish::failed);
  EXPECT_THAT(reply.error, HasSubstr("are infinite or not numbers"));
  EXPECT_TRUE(reply.embedding.empty());
}

TEST_P(Embeddings, that_make_no_sense_are_refused) {
  Engine engine(model_, options());
  EXPECT_EQ(engine.generate(embed(Tokens(128, 7), Pooling::mean)).finish, Finish::stop);
  EXPECT_THAT([&] { engine.submit(embed(Tokens(129, 7), Pooling::last)); },
              ThrowsMessage<BadArgument>(HasSubstr("129 tokens to embed")));
  EXPECT_THAT([&] { engine.submit(embed({1}, static_cast<Pooling>(7))); },
              ThrowsMessage<BadArgument>(HasSubstr("pooling 7")));
  Request late = embed({1}, Pooling::last);
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(2);
  EXPECT_THAT([&] { engine.submit(late); },
              ThrowsMessage<BadArgument>(HasSubstr("the deadline passed 2.0")));
}

}  // namespace
}  // namespace attacca
