// random_blocks.hpp: weights that mean nothing, as files store them. Quantized blocks are random
// bytes under scales that spread their elements as asked for, so nothing is quantized and a file
// is made as fast as a disk takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matrix.hpp"

namespace attacca::model {

/// The elements of one tensor. Const functions may be called from many threads.
class RandomBlocks {
 public:
  /// Elements that are made together: whole blocks of every type.
  static constexpr std::uint64_t kGroup = 256;

  /// Elements have a mean of 0 and about that standard deviation. REQUIRES: a type of files.
  RandomBlocks(kernels::TensorType type, std::uint64_t seed, float deviation);

  std::uint64_t group_bytes() const { return group_bytes_; }
  /// The groups from `first` on, and of the last one as much as there is room for. A group is the
  /// same whatever is filled before or beside it.
  void fill(std::uint64_t first, std::span<std::byte> to) const;

 private:
  void fill_group(std::uint64_t group, std::byte* to) const;
  void set_scales(std::uint64_t bits, std::byte* block) const;

  kernels::TensorType type_;
  std::uint64_t seed_;
  std::uint64_t group_bytes_;
  std::uint16_t scale_ = 0;        // a half; of blocks
  std::uint16_t offset_ = 0;       // a half; of blocks that have one
  std::vector<std::byte> values_;  // [kValues] encoded; of types without blocks
};

}  // namespace attacca::model
