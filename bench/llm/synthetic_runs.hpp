// synthetic_runs.hpp: what decode and prefill share when they run shapes with random weights: the
// choice of shapes, graph modes sampled in turn, and rows for the peers.
#pragma once

#include <string>
#include <vector>

#include "harness.hpp"
#include "llm/device_clock.hpp"
#include "llm/synthetic_step.hpp"
#include "llm/torch_peer.hpp"

namespace bench {

/// Whether a run uses shapes: if some are requested, and on a GPU unless a model is.
bool is_synthetic(const Run& run);

/// The requested shapes and modes, or the default ones.
std::vector<attacca::model::ModelConfig> shapes_of(const Run& run);
std::vector<GraphMode> modes_of(const Run& run);

/// The steps of a batch that are sampled in turn: on a GPU also one with the same bits whatever is
/// in the batch. On the host all have that.
unsigned steps_of_batch(const Run& run);
/// Notes which rows are which, if there are both.
void note_same_bits(Run& run);

/// A step and how to launch it.
struct Variant {
  const SyntheticStep* step;
  GraphMode mode;
};
/// Each step in each mode.
std::vector<Variant> variants_of(const std::vector<const SyntheticStep*>& steps,
                                 const std::vector<GraphMode>& modes);

/// Times the steps in turn, with as many launches in a sample and as many samples as a few seconds
/// allow. Adds a note if a step computes other bits in another mode, or at the end than at first.
std::vector<Summary> time_steps(Run& run, const DeviceClock& clock,
                                const std::vector<Variant>& variants, const std::string& what);

/// Our row that peers are compared with, and the index of their case.
struct Compared {
  Row row;
  std::size_t at;
};
/// Adds a row for each peer's figure: ours, with theirs as the baseline.
void add_peers(Run& run, const std::vector<Compared>& rows, const PeerAnswer& answer);

}  // namespace bench
