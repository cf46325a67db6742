// resident_ranks.cpp: memory for plans on their way between loops, and the loops that follow.
#include "engine/resident_ranks.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <chrono>
#include <thread>
#include <utility>

#include "engine/coverage.hpp"

namespace attacca::engine {

PlanPost::PlanPost(const StepRunner& runner, const Device& device, const schedule::Limits& limits)
    : runner_(runner),
      limits_(limits),
      memory_(runner.parallel()->group().symmetric<schedule::Line>(
          1 + schedule::plan_bytes(limits) / sizeof(schedule::Line))),
      number_(device, std::vector<std::uint32_t>(1)) {}

resident::PlanInbox PlanPost::inbox_of(int rank) const {
  schedule::Line* const memory = memory_.of(rank);
  return {reinterpret_cast<std::uint32_t*>(memory), schedule::bind_plan(limits_, memory + 1)};
}

resident::SendPlanArgs PlanPost::sending(resident::LoopState* loop,
                                         const schedule::Plan& planned) const {
  resident::SendPlanArgs args{};
  args.loop = loop;
  args.planned = planned;
  args.link = runner_.parallel()->linked()->link();
  for (int rank = 1; rank < args.link.ranks; ++rank) args.inboxes[rank] = inbox_of(rank);
  args.sent = const_cast<std::uint32_t*>(number_.data());
  return args;
}

resident::TakePlanArgs PlanPost::taking() const {
  resident::TakePlanArgs args{};
  args.link = runner_.parallel()->linked()->link();
  args.inbox = inbox_of(args.link.rank);
  args.running = runner_.device_plan();
  args.table_stride = limits_.table_stride();
  args.taken = const_cast<std::uint32_t*>(number_.data());
  return args;
}

StepArms step_arms(const StepRunner& runner, const schedule::Limits& limits,
                   const formats::Progress& progress) {
  StepArms arms;
  for (std::uint32_t number = 0; number < limits.graph_count(); ++number) {
    arms.names.push_back(fmt::format("{} step of {}",
                                     limits.is_decode_graph(number) ? "decode" : "mixed",
                                     limits.graph_tokens(number)));
    arms.fills.push_back([&runner, number, limits, progress](Graph& step) {
      if (progress) progress("building graphs", number, limits.graph_count());
      runner.append_step(step, limits, number);
    });
  }
  return arms;
}

LoopForm loop_form(llm::ResidentLoop loop) {
  return loop == llm::ResidentLoop::self_relaunch ? LoopForm::self_relaunch : LoopForm::while_node;
}

namespace {

/// While the loop runs, the host only asks now and then whether another rank has failed.
constexpr auto kLeastNap = std::chrono::microseconds(50);
constexpr int kNapsPerLook = 100;

SwitchLoopExec following_loop(const StepRunner& runner, const PlanPost& post,
                              const schedule::Limits& limits, const llm::EngineOptions& options,
                              const formats::Progress& progress) {
  StepArms arms = step_arms(runner, limits, progress);
  const auto lead = [taking = post.taking(), is_cuda = options.device.is_cuda()](
                        Graph& pass, Condition again, Condition step) {
    resident::TakePlanArgs args = taking;
    args.again = again;
    args.graph = step;
    pass.kernel(resident::take_plan(), grid_of(args, is_cuda), args);
  };
  return SwitchLoop(
             options.device, "resident follower",
             {.lead = lead, .arms = std::move(arms.fills), .arm_names = std::move(arms.names)})
      .instantiate(loop_form(options.resident_loop));
}

}  // namespace

void follow_resident(const StepRunner& runner, const schedule::Limits& limits,
                     const llm::EngineOptions& options, const formats::Progress& progress) {
  require_graphs(limits, options.graphs);
  const PlanPost post(runner, options.device, limits);
  SwitchLoopExec loop = following_loop(runner, post, limits, options, progress);
  Stream stream(options.device);
  const Event ended(options.device);
  while (runner.line()->follow({}) == PlanLine::News::loop) {
    loop.launch(stream);
    stream.record(ended);
    for (int naps = 1; !ended.query(); ++naps) {
      std::this_thread::sleep_for(kLeastNap);
      if (naps % kNapsPerLook == 0 && post.is_broken()) post.stop();
    }
    stream.synchronize();
  }
}

}  // namespace attacca::engine
