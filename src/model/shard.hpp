// shard.hpp: a rank's part of a model that is split over ranks: which sizes its part has, and what
// must be divisible, and its part of the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor.hpp"
#include "model/config.hpp"

namespace attacca::model {

class Checkpoint;

struct Shard {
  int rank = 0;
  int ranks = 1;
};

struct RowRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// A rank's part of `rows` rows: `most_rows`, or what is left of them.
RowRange rows_of(std::uint32_t rows, int rank, int ranks);
std::uint32_t most_rows(std::uint32_t rows, int ranks);

/// The configuration of every rank's part: fewer heads, a narrower feed-forward, and the whole
/// vocabulary. If there are more ranks than heads of keys and values, several ranks have the same
/// one. REQUIRES: check_ranks.
ModelConfig shard_of(const ModelConfig& config, int ranks);

/// Throws BadArgument, with the counts that are possible, if the model cannot be split over that
/// many ranks.
void check_ranks(const Checkpoint& checkpoint, int ranks);

/// The rows of keys and values that a rank has: neighbours share some if there are more ranks than
/// heads of them.
RowRange keys_of(std::uint32_t rows, const ModelConfig& config, const Shard& shard);

/// Some rows of a matrix, or elements of a vector, where they are.
formats::Tensor cut_rows(const formats::Tensor& tensor, const RowRange& range);
/// A rank's columns of a matrix, copied to `memory`.
formats::Tensor cut_columns(const formats::Tensor& tensor, const Shard& shard,
                            std::vector<std::byte>& memory);

/// A number that models with other sizes or other tensors do not have, nor such with other weights:
/// it reads 64 bytes at every 256 KiB of each tensor, and its last 64. It cannot notice weights
/// that differ only between those, nor another tokenizer or chat template, which rank 0 alone uses.
std::uint64_t fingerprint(const Checkpoint& checkpoint);

}  // namespace attacca::model
