// overlap.hpp: runs a job in chunks, so that copying in, computing and copying out overlap. One
// stream copies in, one copies out, and the chunks take turns on compute streams, each with buffers
// of its own that are reused:
//
//   overlap<float, float>(device, input, output, {.chunk = 1 << 20},
//                         [](StreamRef stream, const OverlapChunk<float, float>& c) {
//                           stream.kernel(work, Grid::covering(c.count), {c.in, c.out, c.count});
//                         });
#pragma once

#include <attacca/device.hpp>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <type_traits>

namespace attacca {

/// How a job is cut.
struct OverlapPlan {
  std::size_t chunk;     // elements; the last chunk may have fewer
  unsigned streams = 3;  // compute streams, and buffers in rotation; at most 64
};
inline constexpr unsigned kMaxOverlapStreams = 64;

/// One chunk, on the device.
template <class In, class Out>
struct OverlapChunk {
  const In* in;
  Out* out;
  std::size_t count;
  std::size_t first;  // its first element in the whole
};

namespace detail {

/// Overlap without types.
class OverlapLanes {
 public:
  using Enqueue = std::function<void(StreamRef stream, const void* in, void* out, std::size_t count,
                                     std::size_t first)>;
  OverlapLanes(const Device& device, const OverlapPlan& plan, std::size_t in_size,
               std::size_t out_size);
  void run(const void* input, std::size_t count, void* output, std::size_t output_count,
           const Enqueue& enqueue);

 private:
  struct Lane {
    Lane(const Device& device, std::size_t in_bytes, std::size_t out_bytes);
    Buffer<std::byte> in;
    Buffer<std::byte> out;
    Event has_input;
    Event has_computed;
    Event is_copied_out;
    Stream stream;
  };
  void enqueue_all(const std::byte* input, std::size_t count, std::byte* output,
                   const Enqueue& enqueue);
  void wait_for_all();

  std::size_t chunk_;
  std::size_t in_size_;
  std::size_t out_size_;
  std::deque<Lane> lanes_;
  Stream copy_in_;
  Stream copy_out_;
};

}  // namespace detail

/// Runs jobs over the same streams and buffers, one after another. Not thread-safe.
template <class In, class Out>
class Overlap {
  static_assert(std::is_trivially_copyable_v<In> && std::is_trivially_copyable_v<Out>);

 public:
  /// Enqueues work on the stream that turns `chunk.in` into `chunk.out`.
  using Enqueue = std::function<void(StreamRef stream, const OverlapChunk<In, Out>& chunk)>;

  Overlap(const Device& device, const OverlapPlan& plan)
      : lanes_(device, plan, sizeof(In), sizeof(Out)) {}

  /// Element i of the output comes from the chunk with element i of the input. Both are in host
  /// memory, pinned (`Visibility::shared`): copies of other memory are correct but do not overlap.
  /// Waits for the end. An exception of a chunk, here or in its stream, is thrown once everything
  /// has ended; the output then holds the results of the other chunks.
  void run(std::span<const In> input, std::span<Out> output, const Enqueue& enqueue) {
    if (!enqueue) throw BadArgument("an overlap has no function that enqueues its chunks");
    lanes_.run(
        input.data(), input.size(), output.data(), output.size(),
        [&](StreamRef stream, const void* in, void* out, std::size_t count, std::size_t first) {
          enqueue(stream, {static_cast<const In*>(in), static_cast<Out*>(out), count, first});
        });
  }

 private:
  detail::OverlapLanes lanes_;
};

/// One job. Streams and buffers are made for it; for many jobs keep an Overlap.
template <class In, class Out>
void overlap(const Device& device, std::type_identity_t<std::span<const In>> input,
             std::type_identity_t<std::span<Out>> output, const OverlapPlan& plan,
             const typename Overlap<In, Out>::Enqueue& enqueue) {
  Overlap<In, Out>(device, plan).run(input, output, enqueue);
}

}  // namespace attacca
