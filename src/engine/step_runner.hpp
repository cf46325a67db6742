// step_runner.hpp: a model on a device, ready to run steps: weights, buffers at fixed addresses,
// the KV pool, and a graph for each step size. All graphs use the same memory, because one runs at
// a time. The host may launch a step while the one before it runs. The runner does not decide what
// a step computes: it launches the plan that the policy wrote.
#pragma once

#include <array>
#include <attacca/exec.hpp>
#include <attacca/llm.hpp>
#include <attacca/mark.hpp>
#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/plan_line.hpp"
#include "engine/slot_memory.hpp"
#include "kernels/sample/sample.hpp"
#include "schedule/host.hpp"
#include "step/step.hpp"
#include "step/tensor_parallel.hpp"

namespace attacca::engine {

struct StepSetup {
  schedule::Limits limits;
  llm::GraphMode graphs = llm::GraphMode::full;
  kernels::KvType kv_type = kernels::KvType::f32;
  bool overlap = true;              // steps may take tokens from the step before, on the device
  bool same_bits = true;            // all steps add up in the same order
  bool is_resident = false;         // a loop on the device runs the steps: no graphs are built here
  device::RecordsRef records = {};  // where graphs of whole steps mark their begin and end
  std::optional<Group> ranks = {};  // the model is split over them
  Transport transport = Transport::automatic;
  step::StepForm form = step::StepForm::automatic;
  bool fuses_rank_sums = false;
  std::optional<Group> exchanges = {};  // the ranks on the device; made if there is none
};

/// Not thread-safe. REQUIRES: the configuration and the files that the weights map outlive it.
class StepRunner {
 public:
  /// Builds all graphs, the largest first. Throws DeviceError, with the numbers, when the device
  /// has no memory left for one.
  StepRunner(const model::ModelConfig& config, std::shared_ptr<const model::Weights> weights,
             const Device& device, const StepSetup& setup, const formats::Progress& progress);
  /// Waits for steps in flight, which use its memory.
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  /// Another runner of the same weights, with pages and buffers of its own.
  std::unique_ptr<StepRunner> make_sibling(const StepSetup& setup) const;

  /// The host's memory of the next step's plan. The policy writes it.
  const schedule::Plan& plan() const { return plan_; }
  /// The plan that the kernels read, on the device, with the slots' block tables.
  schedule::Plan device_plan() const;
  /// Adds the kernels of a step to a graph. `graph`: see Counts::graph; of these limits, whose step
  /// sizes may differ from those it was made with. May be called while other threads launch steps.
  void append_step(Graph& to, const schedule::Limits& limits, std::uint32_t graph) const;
  /// Graphs for other step sizes than those of the limits it was made with.
  class Graphs;
  /// Builds them. May be called while other threads launch steps. Throws as the constructor.
  std::shared_ptr<Graphs> build_graphs(const schedule::Limits& limits) const;
  /// Launches steps in these from now on. Steps in flight end in theirs. REQUIRES: the plan that is
  /// launched next was made with their limits.
  void use(Graphs& graphs);
  /// See Engine::explain_steps.
  std::string explain_steps() const;
  const Buffer<kernels::Sampled>& sampled() const { return memory_.sampled(); }
  /// The slots' memory; changes count from the next step on.
  SlotMemory& slots() { return slots_; }
  /// Launches the planned step behind those in flight: in its graph or, if it has none, kernel by
  /// kernel. It copies the plan, which can be rewritten at once. REQUIRES: fewer than
  /// schedule::kMostInFlight steps are in flight. `keeps_rows`: `rows` will have the step's.
  /// Without `needs_logits` nothing is computed behind the final norm, and samples say nothing.
  void launch(bool keeps_rows = false, bool needs_logits = true);
  /// Runs the steps that rank 0 launches, until it ends. Throws RanksBroken. REQUIRES: a rank other
  /// than 0.
  void follow();
  /// Waits for the oldest step in flight and returns its samples. They stay until kMostInFlight
  /// more steps are launched. Rethrows a kernel's error, at the latest when no other step is in
  /// flight; with ranks, before a sample of the broken step is returned.
  const kernels::Sampled* wait();
  /// The hidden states behind the final norm of the rows that `wait` returned. They stay as long.
  const float* rows() const { return rows_; }
  std::uint32_t hidden() const { return config_.hidden; }
  /// Waits for all steps in flight and ignores their errors.
  void drain() noexcept;
  /// Whether the device still works, tried by a copy. REQUIRES: no step is in flight.
  bool is_usable() noexcept;
  const model::Weights& weights() const { return *weights_; }
  /// The exchanges with other ranks, and the line to them; null: there are none.
  const step::TensorParallel* parallel() const { return parallel_ ? &*parallel_ : nullptr; }
  PlanLine* line() const { return line_.get(); }
  std::uint32_t vocabulary() const { return config_.vocabulary; }
  /// Steps launched that sample from the highest logits of each rank.
  std::uint64_t steps_of_highest() const { return steps_of_highest_; }
  std::size_t arena_bytes() const { return memory_.arena_bytes(); }
  std::size_t step_bytes() const;
  std::size_t graph_bytes() const;
  /// GPU memory that building the graphs took.
  std::size_t graph_device_bytes() const { return graph_device_bytes_; }
  std::size_t kv_bytes() const { return kv_.bytes(); }

  /// Bytes besides weights and KV. `expands`: see StepMemory::bytes_for.
  static std::size_t fixed_bytes(const Device& device, const model::ModelConfig& config,
                                 const StepSetup& setup, bool expands);

 private:
  /// A step shape that is ready to launch: one graph for the whole step; or its kernels, with a
  /// graph for each piece between attention kernels or with no graph at all.
  struct Ready {
    std::vector<Exec> graphs;
    std::optional<step::Chain> kernels;  // none: one graph has them all
  };
  /// A step size. The second is empty unless ranks can sample from their highest logits.
  struct Sized {
    Ready from_logits;
    Ready from_highest;
  };

  struct KeptRows {
    Buffer<float> values;  // [logit_rows, hidden]
    Buffer<std::uint32_t> count;
  };

  /// Buffers that the host and one step in flight exchange. A graph's addresses are fixed, but the
  /// flight changes with every step. So the stream copies between a flight and the graph's buffers,
  /// before and after the graph.
  struct Flight {
    Buffer<std::byte> input;
    SlotMemory::Sent slots;
    Buffer<kernels::Sampled> sampled;
    Event done;
    std::optional<KeptRows> kept;  // from the first embedding on
  };

  /// By Counts::graph, the largest built first.
  std::vector<Sized> build_all(const schedule::Limits& limits,
                               const formats::Progress& progress) const;
  Sized build(const schedule::Limits& limits, std::uint32_t graph) const;
  Ready build(const step::StepShape& shape) const;
  static std::size_t bytes_of(const std::vector<Sized>& graphs);
  step::Chain marked_step(const step::StepShape& shape) const;
  std::vector<Exec> build_pieces(const std::string& name, const step::Chain& chain) const;
  step::StepShape shape_of(std::uint32_t tokens, bool is_decode) const;
  Ready& without_graph(const schedule::Counts& counts, bool samples_highest);
  bool can_sample_highest() const { return parallel_ && parallel_->can_sample_highest(); }
  PlanLine::News planned_news() const;
  void launch_planned(bool keeps_rows, bool needs_logits, bool samples_highest);
  void launch(Ready& ready);
  void keep_rows(Flight& flight);
  Flight make_flight() const;

  Device device_;
  Stream stream_;
  Stream wait_stream_;  // waits for one step, but not for those behind it
  StepSetup setup_;
  const model::ModelConfig& config_;
  std::shared_ptr<const model::Weights> weights_;
  step::KvPool kv_;
  SlotMemory slots_;
  std::size_t input_bytes_;
  std::vector<schedule::Line> plan_memory_;  // on the host; the policy writes it
  std::optional<step::TensorParallel> parallel_;
  Buffer<std::byte> input_;  // the kernels' copy: all but the block tables
  step::StepMemory memory_;
  std::array<Flight, schedule::kMostInFlight> flights_;
  std::uint32_t oldest_ = 0;  // index of the oldest flight
  std::uint32_t in_flight_ = 0;
  std::uint64_t steps_of_highest_ = 0;
  std::optional<Buffer<float>> normed_rows_;  // on the device, as KeptRows::values
  const float* rows_ = nullptr;
  schedule::Plan plan_;
  std::vector<Sized> graphs_;  // by Counts::graph
  // By tokens, is_decode and samples_highest.
  std::map<std::tuple<std::uint32_t, bool, bool>, Ready> graphless_;
  std::size_t graph_device_bytes_ = 0;
  std::unique_ptr<PlanLine> line_;  // to the other ranks, or from rank 0; null: there are none
};

class StepRunner::Graphs {
 public:
  const schedule::Limits& limits() const { return limits_; }

 private:
  friend class StepRunner;
  schedule::Limits limits_;
  std::vector<Sized> graphs_;
};

}  // namespace attacca::engine
