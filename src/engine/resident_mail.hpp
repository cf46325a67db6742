// resident_mail.hpp: what the host and the loop on the device share beside the letters: the rings,
// the loop's state, and the loop itself. All of it is made anew after a failure.
#pragma once

#include <algorithm>
#include <attacca/device/ring.hpp>
#include <attacca/memory.hpp>
#include <attacca/switch_loop.hpp>
#include <bit>
#include <cstdint>
#include <memory>

#include "engine/rehearsal.hpp"
#include "resident/loop_kernels.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

struct ResidentMail {
  static constexpr std::uint32_t kNewsPerTops = 16;  // few requests ask for alternatives

  ResidentMail(const Device& device, const schedule::Limits& limits, std::uint32_t news_capacity)
      : orders(device, std::bit_ceil(6u * limits.requests + 16)),
        news(device, news_capacity),
        tops(device, std::bit_ceil(std::max(4 * limits.logit_rows, news_capacity / kNewsPerTops))),
        order_writer(orders.writer()),
        news_reader(news.reader()),
        tops_reader(tops.reader()),
        loop_orders(orders.reader()),
        loop_news(news.writer()),
        loop_tops(tops.writer()),
        state_memory(device, schedule::state_bytes(limits) / sizeof(schedule::Line)),
        plan_memory(device, schedule::plan_bytes(limits) / sizeof(schedule::Line)),
        cached_tokens(device, limits.requests),
        masks(device, limits.requests),
        params(device, limits.requests),
        stop(device, std::size_t{limits.requests} * kernels::SamplingParams::kMaxStopTokens),
        sampled(device, limits.logit_rows),
        loop_state(device, 1),
        board(device, 1, Visibility::shared),
        launch(device, 1, Visibility::shared),
        rehearsal(device, limits) {
    new (board.data()) resident::Board{};
    new (launch.data()) resident::Launch{};
  }

  device::Ring<resident::Order> orders;
  device::Ring<resident::News> news;
  device::Ring<kernels::Sampled> tops;
  device::RingWriter<resident::Order> order_writer;
  device::RingReader<resident::News> news_reader;
  device::RingReader<kernels::Sampled> tops_reader;
  // The loop's ends.
  device::RingRef<resident::Order> loop_orders;
  device::RingRef<resident::News> loop_news;
  device::RingRef<kernels::Sampled> loop_tops;
  Buffer<schedule::Line> state_memory;
  Buffer<schedule::Line> plan_memory;  // of the next step
  Buffer<std::uint32_t> cached_tokens;
  Buffer<std::uint32_t> masks;
  Buffer<kernels::SamplingParams> params;
  Buffer<std::int32_t> stop;
  Buffer<kernels::Sampled> sampled;  // of the step before
  Buffer<resident::LoopState> loop_state;
  Buffer<resident::Board> board;
  Buffer<resident::Launch> launch;
  Rehearsal rehearsal;
  std::unique_ptr<SwitchLoopExec> loop;
};

}  // namespace attacca::engine
