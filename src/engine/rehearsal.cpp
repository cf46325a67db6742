// rehearsal.cpp: lays the small loop out and makes its first plan.
#include "engine/rehearsal.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

namespace attacca::engine {

namespace {

constexpr std::uint32_t kPages = 2;  // of the prompt; the first is looked for in the prefix cache
constexpr std::size_t kStops = kernels::SamplingParams::kMaxStopTokens;
constexpr std::size_t kLoopLines =
    (sizeof(resident::LoopState) + sizeof(schedule::Line) - 1) / sizeof(schedule::Line);

schedule::Limits limits_for_one(schedule::Limits limits) {
  limits.slots = limits.requests = limits.logit_rows = 1;
  limits.pages = 2 * kPages;
  limits.max_context = limits.pages * limits.page_size;
  return limits;
}

}  // namespace

Rehearsal::Rehearsal(const Device& device, const schedule::Limits& limits)
    : limits_(limits_for_one(limits)),
      orders_(device, 1),
      news_(device, 16),
      tops_(device, 16),
      letters_(device, 1, Visibility::shared),
      prompt_(device, limits_.max_context, Visibility::shared),
      stop_(device, kStops, Visibility::shared),
      launch_(device, 1, Visibility::shared),
      board_(device, 1, Visibility::shared),
      plan_memory_(device, schedule::plan_bytes(limits_) / sizeof(schedule::Line)),
      cached_tokens_(device, 1),
      masks_(device, 1),
      params_(device, 1),
      loop_stop_(device, kStops),
      memory_(device, kLoopLines + schedule::state_bytes(limits_) / sizeof(schedule::Line)),
      beginning_(device, memory_.size()) {
  const std::uint32_t prompt = kPages * limits_.page_size;
  letters_.data()[0] = {.request = {.id = 1, .prompt = prompt, .max_new = 1}, .params = {}};
  std::fill_n(prompt_.data(), prompt_.size(), 0);
  std::fill_n(stop_.data(), stop_.size(), 0);
  device::RingWriter<resident::Order>(orders_.writer())
      .try_push({.kind = resident::Order::Kind::admit, .entry = 0, .id = 1, .prompt = prompt});
  new (launch_.data()) resident::Launch{.orders = 1};
  new (board_.data()) resident::Board{};

  std::vector<schedule::Line> plan(plan_memory_.size()), memory(memory_.size());
  schedule::State state = schedule::bind_state(limits_, schedule::bind_plan(limits_, plan.data()),
                                               memory.data() + kLoopLines);
  schedule::reset(state);
  resident::LoopState loop;
  loop.state = schedule::rebind(state, schedule::bind_plan(limits_, plan_memory_.data()),
                                memory_.data() + kLoopLines);
  loop.cached_tokens = cached_tokens_.data();
  loop.masks = masks_.data();
  loop.params = params_.data();
  loop.stop = loop_stop_.data();
  std::memcpy(memory.data(), &loop, sizeof loop);
  plan_memory_.write(plan);
  beginning_.write(memory);
  plan_ = {.loop = reinterpret_cast<resident::LoopState*>(memory_.data()),
           .letters = {.letters = letters_.data(), .prompts = prompt_.data(), .stop = stop_.data()},
           .slots = {},
           .launch = launch_.data(),
           .orders = orders_.reader(),
           .news = news_.writer(),
           .tops = tops_.writer(),
           .board = board_.data(),
           .records = {},
           .sites = {},
           .is_first = 1};
}

void Rehearsal::add_to(Graph& graph, const resident::LoopState* loop) const {
  resident::PlanArgs args = plan_;
  args.rehearses = loop;
  const auto begun = graph.copy(memory_.data(), beginning_.data(), memory_.bytes());
  graph.kernel(resident::plan(), grid_of(args, graph.device().is_cuda()), args)
      .named("rehearsal")
      .after(begun);
}

std::size_t Rehearsal::bytes() const {
  return letters_.bytes() + prompt_.bytes() + stop_.bytes() + plan_memory_.bytes() +
         params_.bytes() + loop_stop_.bytes() + 2 * memory_.bytes();
}

}  // namespace attacca::engine
