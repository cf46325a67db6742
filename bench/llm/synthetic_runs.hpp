// synthetic_runs.hpp: what decode and prefill share when they run shapes with random weights: which
// ones, the modes of graphs taken in turn, and rows for the peers.
#pragma once

#include <string>
#include <vector>

#include "harness.hpp"
#include "llm/device_clock.hpp"
#include "llm/synthetic_step.hpp"
#include "llm/torch_peer.hpp"

namespace bench {

/// Whether a run is of shapes: where some are asked for, and on a GPU unless a model is.
bool is_synthetic(const Run& run);

/// The shapes and modes asked for, or the default ones.
std::vector<attacca::model::ModelConfig> shapes_of(const Run& run);
std::vector<GraphMode> modes_of(const Run& run);

/// Steps of a batch that run in turn: on a GPU also one with the same bits, as on the host all are.
unsigned steps_of_batch(const Run& run);
/// Says which rows are which, where there are both.
void note_same_bits(Run& run);

/// A step and how to launch it.
struct Variant {
  const SyntheticStep* step;
  GraphMode mode;
};
/// Each step in each mode.
std::vector<Variant> variants_of(const std::vector<const SyntheticStep*>& steps,
                                 const std::vector<GraphMode>& modes);

/// Times them in turn, with as many launches in a sample and as many samples as a few seconds
/// allow. Notes where a step computes other bits in another mode, or at the end than at first.
std::vector<Summary> time_steps(Run& run, const DeviceClock& clock,
                                const std::vector<Variant>& variants, const std::string& what);

/// A row that peers are compared with: ours, and which case of theirs.
struct Compared {
  Row row;
  std::size_t at;
};
/// A row for each peer's figure: ours, with theirs as the baseline.
void add_peers(Run& run, const std::vector<Compared>& rows, const PeerAnswer& answer);

}  // namespace bench
