// torch_peer.hpp: PyTorch's times for the same steps, from scripts/torch_decode.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness.hpp"
#include "model/config.hpp"

namespace bench {

/// A step: `tokens` tokens of each of `batch` sequences, after `context` tokens.
struct PeerCase {
  attacca::model::ModelConfig config;
  unsigned batch;
  unsigned context;
  unsigned tokens;
};

struct PeerFigure {
  std::size_t at;    // index of the case
  std::string peer;  // "PyTorch eager" or "PyTorch CUDA graph"
  double microseconds;
};

struct PeerAnswer {
  std::vector<PeerFigure> figures;
  std::optional<double> matrix_rate{};  // FLOP/s of a large product in bf16
  std::string version{};                // "PyTorch 2.11"
};

/// Runs the script if it is wanted and installed, otherwise adds a note that says why not. It needs
/// a GPU. Cases of one shape should follow each other: weights are made once for them.
PeerAnswer ask_torch(Run& run, const std::vector<PeerCase>& cases, bool wants_matrix_rate);

}  // namespace bench
