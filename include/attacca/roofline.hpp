// roofline.hpp: which tool to reach for. A device's roofs are measured: the rates at which it moves
// bytes and computes at most, and the costs of starting work. Each kernel is placed under them by
// the cost it declares and the time it took, and gets advice with the time that it should save.
// docs/roofline.md shows it.
//
//   const Roofline found = roofline_of(graph, roofs_of(device));
//   std::puts(to_text(found).c_str());
//   std::puts(to_text(try_advice(graph, found)).c_str());
#pragma once

#include <array>
#include <attacca/graph.hpp>
#include <attacca/persistent.hpp>
#include <attacca/trace.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attacca {

/// The widths of forks whose cost is measured.
inline constexpr std::array<unsigned, 4> kForkWidths{2, 8, 32, 128};
/// Microseconds for each of kForkWidths.
using ByWidth = std::array<double, kForkWidths.size()>;
/// For any width, along the line between the two that were measured.
double at_width(const ByWidth& us, std::size_t width);

/// What a device does at most, and what starting work costs. 0: not measured. Costs are those of
/// tiny kernels, which read and write 16 bytes each.
struct Roofs {
  std::string device;  // the hardware: "Neoverse-V1, 2 threads"
  // Bytes per second. Of a copy, what is read and what is written both count.
  double read = 0;
  double copy = 0;
  double cache = 0;                          // read from L2, on the host from the cores' own caches
  std::array<double, kArithmetics> flops{};  // per second, by Arithmetic
  // Microseconds.
  double launch_us = 0;         // a kernel launched on a stream, one after another
  double graph_us = 0;          // a launch of a graph, without its nodes
  double node_us = 0;           // a tiny kernel behind another in a graph
  double early_node_us = 0;     // the same behind a programmatic edge
  ByWidth branch_us{};          // each further branch of a fork, with its part of the join
  ByWidth root_us{};            // each further node of a graph without edges
  double persistent_us = 0;     // a launch of a persistent kernel, without its steps
  double step_us = 0;           // a tiny kernel as a step of it, of one block
  double barrier_us = 0;        // a barrier of all blocks of a persistent kernel
  double device_launch_us = 0;  // a graph that launches itself again
  double tiny_us = 0;           // a tiny kernel's own time, as kernels are timed here

  double flops_of(Arithmetic arithmetic) const;  // of fp32 where that was not measured
};

/// Called with a task's name, the tasks done and their number.
using RoofProgress = std::function<void(const char* what, unsigned done, unsigned all)>;

/// Takes a second or two. The device should have nothing else to do.
Roofs measure_roofs(const Device& device, const RoofProgress& progress = {});
/// Those measured earlier on the same hardware, from the cache folder ($XDG_CACHE_HOME/attacca or
/// ~/.cache/attacca).
std::optional<Roofs> kept_roofs(const Device& device);
/// The same; where there are none, measures and keeps them.
Roofs roofs_of(const Device& device, const RoofProgress& progress = {});
/// Keeps them in place of those measured earlier. False if that is not possible.
bool keep_roofs(const Roofs& roofs);

/// What keeps a kernel from being faster.
enum class Limit : std::uint8_t {
  memory,   // it moves bytes at a good part of what memory allows
  compute,  // it computes at a good part of what the arithmetic allows
  launch,   // its work is less than the cost of a node
  neither,  // it is far below both roofs
  unknown,  // it declares no cost, or more than it can have done in its time
};
const char* limit_name(Limit limit);

/// A kernel under the roofs; or several executions of it, each counted alike.
struct PlacedKernel {
  std::string name;
  std::size_t count = 1;  // executions
  Cost cost;              // of one
  double time_us = 0;     // of one
  double floor_us = 0;    // the time that the roofs allow
  Limit limit = Limit::unknown;
  bool is_cached = false;    // it was faster than memory, so it is measured against the cache
  double processors = 1;     // the share of them that its blocks can use
  bool is_in_graph = true;   // else it was launched by itself
  double written_share = 0;  // of its bytes, where it declares its accesses
  /// Bytes that it moved from and to memory, by the device's counters; negative: not counted. They
  /// are fewer than declared where the cache had them, and more where it fetched what was not used.
  double counted_bytes = -1;
  /// FLOPs in fp32 and of the matrix units, by the counters; negative: not counted.
  double counted_flops = -1;

  double share() const { return time_us > 0 ? floor_us / time_us : 0; }
  /// FLOPs per byte.
  double intensity() const { return cost.bytes > 0 ? cost.flops / cost.bytes : 0; }
};

enum class Tool : std::uint8_t {
  fewer_bytes,
  more_loads,
  faster_arithmetic,
  larger_tiles,
  fusion,
  more_blocks,
  graph,
  programmatic_edges,
  persistent_kernel,
  device_launch,
  concurrent_branches,
};
const char* tool_name(Tool tool);

struct RoofAdvice {
  Tool tool;
  std::string about;   // a kernel; empty: the whole
  std::string text;    // a sentence with the figures
  double gain_us = 0;  // predicted, of one launch of the graph, or of the whole trace
};

struct Roofline {
  Roofs roofs;
  std::string subject = {};   // the graph's name, or the trace's
  std::string timed_by = {};  // "CUPTI"
  double total_us = 0;        // of a launch of the graph; of a trace, of all its kernels
  // Why the device's counters were not read; empty: they were, or nobody asked.
  std::string bytes_not_counted = {}, flops_not_counted = {};
  std::vector<PlacedKernel> kernels = {};  // most time first
  std::vector<RoofAdvice> advice = {};     // largest gain first
};

/// Runs the graph some dozen times. REQUIRES: the graph may run again and again on its memory.
/// `counts`: also reads the counters of a GPU, if the driver lets it, with each kernel alone on the
/// device.
Roofline roofline_of(const Graph& graph, const Roofs& roofs, bool counts = false);
/// Places the kernels of a recorded run, executions of one name together.
Roofline roofline_of(const Trace& trace, const Roofs& roofs, const std::string& name = "trace");

/// Kernels whose names differ only in numbers, as those of layers do, share a place: "layer #
/// norm".
Roofline merge_numbers(const Roofline& found);

/// A tool put to use: what was predicted and what came out.
struct Trial {
  Tool tool;
  std::string what;  // "a graph instead of a stream"
  double before_us = 0;
  double predicted_us = 0;
  double measured_us = 0;
  std::string why_not = {};  // not empty: it could not be tried
  double error() const { return measured_us > 0 ? predicted_us / measured_us - 1 : 0; }
};

/// Ends a loop behind its first pass.
struct EndPass {
  static constexpr const char* name = "end_pass";
  struct Args {
    Condition again;
  };
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.again.set(0);
  }
};

/// Applies what can be applied without changing a kernel: a graph instead of a stream, programmatic
/// edges, concurrent branches where nodes declare their accesses, and a persistent kernel where
/// `program` has all kernels of the graph and EndPass: make_persistent<Scale, EndPass>(). The graph
/// itself stays as it is. REQUIRES: as `roofline_of`.
std::vector<Trial> try_advice(const Graph& graph, const Roofline& found,
                              const PersistentProgram* program = nullptr);

/// Tables for a terminal. `most`: rows of kernels and of advice.
std::string to_text(const Roofs& roofs);
std::string to_text(const Roofline& found, std::size_t most = 15);
std::string to_text(const std::vector<Trial>& trials);

}  // namespace attacca
