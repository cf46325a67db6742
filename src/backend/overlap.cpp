// overlap.cpp: rotates chunks over copy and compute streams.
#include <attacca/error.hpp>
#include <attacca/overlap.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <limits>

namespace attacca::detail {

OverlapLanes::Lane::Lane(const Device& device, std::size_t in_bytes, std::size_t out_bytes)
    : in(device, in_bytes),
      out(device, out_bytes),
      has_input(device),
      has_computed(device),
      is_copied_out(device),
      stream(device) {}

OverlapLanes::OverlapLanes(const Device& device, const OverlapPlan& plan, std::size_t in_size,
                           std::size_t out_size)
    : chunk_(plan.chunk),
      in_size_(in_size),
      out_size_(out_size),
      copy_in_(device),
      copy_out_(device) {
  const std::size_t most = std::numeric_limits<std::size_t>::max() / std::max(in_size, out_size);
  if (plan.chunk == 0 || plan.chunk > most)
    throw BadArgument(
        fmt::format("an overlap in chunks of {} elements; use 1 to {}", plan.chunk, most));
  if (plan.streams == 0 || plan.streams > kMaxOverlapStreams)
    throw BadArgument(
        fmt::format("an overlap over {} streams; use 1 to {}: 3 keep both copies and "
                    "the kernels going",
                    plan.streams, kMaxOverlapStreams));
  for (unsigned at = 0; at < plan.streams; ++at)
    lanes_.emplace_back(device, plan.chunk * in_size, plan.chunk * out_size);
}

void OverlapLanes::run(const void* input, std::size_t count, void* output, std::size_t output_count,
                       const Enqueue& enqueue) {
  if (count != output_count)
    throw BadArgument(fmt::format("an overlap of {} elements into {}; give it as many out as in",
                                  count, output_count));
  std::exception_ptr error;
  try {
    enqueue_all(static_cast<const std::byte*>(input), count, static_cast<std::byte*>(output),
                enqueue);
  } catch (...) {
    error = std::current_exception();
  }
  // Enqueued work uses the caller's memory, so wait for it before throwing anything.
  try {
    wait_for_all();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  if (error) std::rethrow_exception(error);
}

void OverlapLanes::enqueue_all(const std::byte* input, std::size_t count, std::byte* output,
                               const Enqueue& enqueue) {
  std::size_t turn = 0;
  for (std::size_t first = 0; first < count; first += chunk_) {
    Lane& lane = lanes_[turn++ % lanes_.size()];
    const std::size_t size = std::min(chunk_, count - first);
    copy_in_.wait(lane.has_computed);  // then the lane's last chunk has read its input
    copy_in_.copy(lane.in.data(), input + first * in_size_, size * in_size_);
    copy_in_.record(lane.has_input);
    lane.stream.wait(lane.has_input);
    lane.stream.wait(lane.is_copied_out);  // and its output was copied out
    enqueue(lane.stream, lane.in.data(), lane.out.data(), size, first);
    lane.stream.record(lane.has_computed);
    copy_out_.wait(lane.has_computed);
    copy_out_.copy(output + first * out_size_, lane.out.data(), size * out_size_);
    copy_out_.record(lane.is_copied_out);
    if (count - first <= chunk_) break;  // first + chunk_ could wrap around
  }
}

void OverlapLanes::wait_for_all() {
  std::exception_ptr error;
  const auto wait = [&](const Stream& stream) {
    try {
      stream.synchronize();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  };
  wait(copy_in_);
  for (const Lane& lane : lanes_) wait(lane.stream);
  wait(copy_out_);
  if (error) std::rethrow_exception(error);
}

}  // namespace attacca::detail
