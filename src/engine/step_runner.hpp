// step_runner.hpp: a model on a device, ready to run steps: weights, buffers at fixed addresses,
// the KV pool, and a graph for each step size, all on the same memory since one runs at a time. The
// host may launch a step while the one before it runs.
#pragma once

#include <array>
#include <attacca/exec.hpp>
#include <attacca/llm.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/slot_memory.hpp"
#include "kernels/sample/sample.hpp"
#include "schedule/host.hpp"
#include "step/step.hpp"

namespace attacca::engine {

struct StepSetup {
  schedule::Limits limits;
  llm::GraphMode graphs = llm::GraphMode::full;
  kernels::KvType kv_type = kernels::KvType::f32;
  bool overlap = true;    // steps take tokens from the step before
  bool same_bits = true;  // all steps add up in the same order
};

/// Not thread-safe. REQUIRES: the configuration, and what weights map, outlive it.
class StepRunner {
 public:
  /// Builds all graphs, the largest first. Throws DeviceError, with the numbers, where the device
  /// has no memory left for one.
  StepRunner(const model::ModelConfig& config, model::Weights weights, const Device& device,
             const StepSetup& setup, const formats::Progress& progress);

  /// Where the host writes what the next step shall do.
  const schedule::Plan& plan() const { return plan_; }
  /// Where it says what a slot samples with from the next step on.
  SlotMemory& slots() { return slots_; }
  /// Launches the planned step behind those in flight, in its graph or, where it has none, kernel
  /// by kernel. It works on a copy: the plan can be written again at once. REQUIRES: fewer than
  /// schedule::kMostInFlight steps are in flight.
  void launch();
  /// Waits for the oldest step in flight and returns what it sampled, which stays until as many
  /// others were launched. Throws what kernels threw, at the latest when none is in flight behind.
  const kernels::Sampled* wait();
  /// Waits for all steps in flight, whatever comes of them.
  void drain() noexcept;
  const model::Weights& weights() const { return weights_; }
  std::size_t arena_bytes() const { return memory_.arena_bytes(); }
  std::size_t step_bytes() const;
  std::size_t graph_bytes() const;
  /// What building the graphs took of a GPU's memory.
  std::size_t graph_device_bytes() const { return graph_device_bytes_; }
  std::size_t kv_bytes() const { return kv_.bytes(); }

  /// Bytes besides weights and KV.
  static std::size_t fixed_bytes(const Device& device, const model::ModelConfig& config,
                                 const StepSetup& setup);

 private:
  /// A shape of step made ready: one graph for all of it; or its kernels, with a graph for each
  /// piece between attention, or with none.
  struct Ready {
    std::vector<Exec> graphs;
    std::optional<step::Chain> kernels;  // none: the graph is whole
  };

  /// What the host and a step in flight hand each other. Copies to and from what kernels know are
  /// made on the stream around a graph: which of these they are of changes with every step, and
  /// what a graph knows does not.
  struct Flight {
    Buffer<std::byte> input;
    SlotMemory::Sent slots;
    Buffer<kernels::Sampled> sampled;
    Event done;
  };

  void build_all(const formats::Progress& progress);
  Ready build(std::uint32_t graph) const;
  std::vector<Exec> build_pieces(const std::string& name, const step::Chain& chain) const;
  step::StepShape shape_of(std::uint32_t tokens, bool is_decode) const;
  Ready& without_graph(const schedule::Counts& counts);
  void launch(Ready& ready);
  Flight make_flight() const;

  Device device_;
  Stream stream_;
  Stream waiting_;  // for a step, but not for those behind it
  StepSetup setup_;
  const model::ModelConfig& config_;
  model::Weights weights_;
  step::KvPool kv_;
  SlotMemory slots_;
  std::size_t input_bytes_;
  std::vector<schedule::Line> written_;  // what the host writes: the plan
  Buffer<std::byte> input_;              // what kernels read of it: all but the block tables
  step::StepMemory memory_;
  std::array<Flight, schedule::kMostInFlight> flights_;
  std::uint32_t oldest_ = 0;  // of the flights
  std::uint32_t in_flight_ = 0;
  schedule::Plan plan_;
  std::vector<Ready> graphs_;                                  // by Counts::graph
  std::map<std::pair<std::uint32_t, bool>, Ready> graphless_;  // by tokens and is_decode
  std::size_t graph_device_bytes_ = 0;
};

}  // namespace attacca::engine
