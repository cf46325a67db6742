// random_blocks.hpp: random weights in the types of files. Quantized blocks are random bytes with
// scales that give their elements the wanted deviation. So nothing is quantized, and a file is made
// as fast as the disk can write it.
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
  /// Elements that are made together; a multiple of every type's block.
  static constexpr std::uint64_t kGroup = 256;

  /// Elements have a mean of 0 and about that standard deviation. REQUIRES: files can have the
  /// type.
  RandomBlocks(kernels::TensorType type, std::uint64_t seed, float deviation);

  std::uint64_t group_bytes() const { return group_bytes_; }
  /// Fills `to` with the groups from `first` on; the last one may be cut. A group's bytes depend
  /// only on the seed and its number.
  void fill(std::uint64_t first, std::span<std::byte> to) const;

 private:
  void fill_group(std::uint64_t group, std::byte* to) const;
  void set_scales(std::uint64_t bits, std::byte* block) const;

  kernels::TensorType type_;
  std::uint64_t seed_;
  std::uint64_t group_bytes_;
  std::uint16_t scale_ = 0;        // a half; for types with blocks
  std::uint16_t offset_ = 0;       // a half; for types whose blocks have an offset
  std::vector<std::byte> values_;  // [kValues] encoded; for types without blocks
};

}  // namespace attacca::model
