// step_runner.hpp: a model on a device, ready to run steps: weights, buffers at fixed addresses,
// the KV pool, and one graph for each step size, all on the same memory since one runs at a time.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <vector>

#include "device/schedule/host.hpp"
#include "kernels/sample.hpp"
#include "model/transformer.hpp"

namespace attacca::engine {

/// Not thread-safe. REQUIRES: the checkpoint outlives it.
class StepRunner {
 public:
  StepRunner(const model::Checkpoint& checkpoint, const Device& device,
             const schedule::Limits& limits, const model::Progress& progress);

  /// Where the host writes what the next step shall do.
  const schedule::Plan& plan() const { return plan_; }
  kernels::SamplingParams* sampling() const { return sampling_; }  // [slots]
  /// Runs the planned step and waits for it. Throws what its kernels threw.
  void run();
  /// What the last step sampled. [logit_rows]
  const kernels::Sampled* sampled() const { return sampled_; }
  /// Tells a slot's penalties what its sequence has seen: the prompt, then what was generated.
  void set_seen(std::uint32_t slot, std::span<const std::int32_t> tokens, std::size_t prompt);

  const model::Weights& weights() const { return weights_; }
  std::size_t arena_bytes() const { return arena_.bytes_total(); }
  std::size_t step_bytes() const;
  std::size_t graph_bytes() const;
  std::size_t kv_bytes() const { return kv_.bytes(); }

  /// Bytes of one page over all layers.
  static std::size_t page_bytes(const model::ModelConfig& config, std::uint32_t page_size);
  /// Bytes besides weights and KV.
  static std::size_t fixed_bytes(const model::ModelConfig& config, const schedule::Limits& limits);

 private:
  void build(const schedule::Limits& limits, std::uint32_t tokens);

  Device device_;
  Stream stream_;
  const model::ModelConfig& config_;
  model::Weights weights_;
  Arena arena_;
  Buffer<float> kv_;
  Buffer<std::uint16_t> seen_;
  // What the host writes and reads. On CUDA steps work on copies, made by the graph itself.
  std::size_t input_bytes_;
  Buffer<std::byte> host_input_;
  Buffer<std::byte> device_input_;
  Buffer<kernels::Sampled> host_sampled_;
  Buffer<kernels::Sampled> device_sampled_;
  schedule::Plan plan_;
  kernels::SamplingParams* sampling_;
  kernels::Sampled* sampled_;
  model::StepBuffers buffers_;
  model::StepActivations activations_;
  std::vector<Exec> graphs_;  // by Counts::size_index
};

}  // namespace attacca::engine
