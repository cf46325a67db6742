// step_runner.hpp: a model on a device, ready to run steps: weights, buffers at fixed addresses,
// the KV pool, and a graph for each step size, all on the same memory since one runs at a time.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/llm.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "device/schedule/host.hpp"
#include "kernels/sample.hpp"
#include "model/transformer.hpp"

namespace attacca::engine {

struct StepSetup {
  schedule::Limits limits;
  llm::GraphMode graphs = llm::GraphMode::full;
  kernels::KvType kv_type = kernels::KvType::f32;
};

/// Not thread-safe. REQUIRES: the configuration, and what weights map, outlive it.
class StepRunner {
 public:
  /// Builds all graphs, the largest first. Throws DeviceError, with the numbers, where the device
  /// has no memory left for one.
  StepRunner(const model::ModelConfig& config, model::Weights weights, const Device& device,
             const StepSetup& setup, const model::Progress& progress);

  /// Where the host writes what the next step shall do.
  const schedule::Plan& plan() const { return plan_; }
  kernels::SamplingParams* sampling() const { return sampling_; }  // [slots]
  /// Runs the planned step, in its graph or, where it has none, kernel by kernel, and waits for it.
  /// Throws what its kernels threw.
  void run();
  /// What the last step sampled. [logit_rows]
  const kernels::Sampled* sampled() const { return sampled_; }
  /// Tells a slot's penalties what its sequence has seen: the prompt, then what was generated.
  void set_seen(std::uint32_t slot, std::span<const std::int32_t> tokens, std::size_t prompt);

  const model::Weights& weights() const { return weights_; }
  std::size_t arena_bytes() const { return arena_.bytes_total(); }
  std::size_t step_bytes() const;
  std::size_t graph_bytes() const;
  /// What building the graphs took of a GPU's memory.
  std::size_t graph_device_bytes() const { return graph_device_bytes_; }
  std::size_t kv_bytes() const { return kv_.bytes(); }

  /// Bytes of one page over all layers.
  static std::size_t page_bytes(const model::ModelConfig& config, std::uint32_t page_size,
                                kernels::KvType kv_type);
  /// Bytes besides weights and KV.
  static std::size_t fixed_bytes(const model::ModelConfig& config, const schedule::Limits& limits);

 private:
  /// A shape of step made ready: one graph for all of it; or its kernels, with a graph for each
  /// piece between attention, or with none.
  struct Ready {
    std::vector<Exec> graphs;
    std::optional<model::Chain> kernels;  // none: the graph is whole
    std::uint32_t rows = 0;
  };

  void build_all(const model::Progress& progress);
  Ready build(std::uint32_t graph) const;
  Exec build_whole(const std::string& name, const model::Chain& chain, std::uint32_t rows) const;
  std::vector<Exec> build_pieces(const std::string& name, const model::Chain& chain) const;
  model::StepShape shape_of(std::uint32_t tokens, bool is_decode) const;
  model::Chain kernels_of(const model::StepShape& shape) const;
  Ready& without_graph(const schedule::Counts& counts);
  void launch(Ready& ready);

  Device device_;
  Stream stream_;
  StepSetup setup_;
  const model::ModelConfig& config_;
  model::Weights weights_;
  Arena arena_;
  Buffer<std::byte> kv_;
  Buffer<std::uint16_t> seen_;
  // What the host writes and reads. On CUDA steps work on copies, made as part of the step.
  std::size_t input_bytes_;
  Buffer<std::byte> host_input_;
  Buffer<std::byte> device_input_;
  Buffer<kernels::Sampled> host_sampled_;
  Buffer<kernels::Sampled> device_sampled_;
  schedule::Plan plan_;
  kernels::SamplingParams* sampling_;
  kernels::Sampled* sampled_;
  std::optional<model::StepScratch> scratch_;  // of CUDA
  model::StepBuffers buffers_;
  model::StepActivations activations_;
  std::vector<Ready> graphs_;                                  // by Counts::graph
  std::map<std::pair<std::uint32_t, bool>, Ready> graphless_;  // by tokens and is_decode
  std::size_t graph_device_bytes_ = 0;
};

}  // namespace attacca::engine
