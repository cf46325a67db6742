// shard.cpp: splits sizes and weights over ranks. Rows of a matrix are a part of the mapped file;
// columns have to be copied.
#include "model/shard.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <attacca/error.hpp>
#include <cstring>
#include <span>
#include <string>

#include "formats/mapped_file.hpp"
#include "model/checkpoint.hpp"

namespace attacca::model {

namespace {

constexpr std::uint64_t kSampleBytes = 64;           // of a tensor, for its fingerprint,
constexpr std::uint64_t kSampleStride = 256 * 1024;  // every so many bytes and at the end

template <class Use>
void each_sample(const formats::Tensor& tensor, Use use) {
  for (std::uint64_t at = 0; at < tensor.bytes; at += kSampleStride)
    use(std::span(tensor.data + at, std::min(tensor.bytes - at, kSampleBytes)));
  const std::uint64_t last = std::min(tensor.bytes, kSampleBytes);
  use(std::span(tensor.data + tensor.bytes - last, last));
}

/// Why the model cannot be split; empty if it can.
std::string problem_with(const Checkpoint& checkpoint, int ranks) {
  const ModelConfig& c = checkpoint.config();
  const auto n = static_cast<std::uint32_t>(ranks);
  if (c.heads % n != 0) return fmt::format("its {} heads", c.heads);
  if (c.kv_heads % n != 0 && n % c.kv_heads != 0)
    return fmt::format("its {} heads of keys and values", c.kv_heads);
  if (c.feed_forward % n != 0) return fmt::format("its feed-forward of {} columns", c.feed_forward);
  for (const formats::Tensor& tensor : checkpoint.tensors()) {
    const bool is_cut =
        tensor.name.ends_with("attn_output.weight") || tensor.name.ends_with("ffn_down.weight");
    if (!is_cut) continue;
    const std::uint64_t columns = tensor.shape.back() / n;
    const std::uint32_t block = kernels::block_shape(tensor.type).elements;
    if (columns % block != 0)
      return fmt::format("the {} columns of {} into blocks of {}, as {} has them",
                         tensor.shape.back(), tensor.name, block, kernels::type_name(tensor.type));
  }
  return {};
}

}  // namespace

std::uint32_t most_rows(std::uint32_t rows, int ranks) {
  const auto n = static_cast<std::uint32_t>(ranks);
  return (rows + n - 1) / n;
}

RowRange rows_of(std::uint32_t rows, int rank, int ranks) {
  const std::uint32_t most = most_rows(rows, ranks);
  const std::uint32_t first = std::min(rows, most * static_cast<std::uint32_t>(rank));
  return {first, std::min(most, rows - first)};
}

ModelConfig shard_of(const ModelConfig& config, int ranks) {
  ModelConfig shard = config;
  const auto n = static_cast<std::uint32_t>(ranks);
  shard.heads /= n;
  shard.kv_heads = std::max(1u, shard.kv_heads / n);
  shard.feed_forward /= n;
  return shard;
}

void check_ranks(const Checkpoint& checkpoint, int ranks) {
  const std::string problem = problem_with(checkpoint, ranks);
  if (problem.empty()) return;
  std::string possible = "1";
  std::string last;
  for (int count = 2; count <= static_cast<int>(checkpoint.config().heads); ++count) {
    if (!problem_with(checkpoint, count).empty()) continue;
    if (!last.empty()) possible += ", " + last;
    last = std::to_string(count);
  }
  if (!last.empty()) possible += " or " + last;
  throw BadArgument(fmt::format("{} ranks cannot divide {}; this model runs on {}", ranks, problem,
                                last.empty() ? "1 rank only" : possible + " ranks"));
}

std::uint64_t fingerprint(const Checkpoint& checkpoint) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&](const void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; ++at)
      hash = (hash ^ static_cast<const unsigned char*>(data)[at]) * 0x100000001b3u;
  };
  const auto add_number = [&](auto number) { add(&number, sizeof number); };
  const ModelConfig& c = checkpoint.config();
  for (const std::uint32_t size : {c.vocabulary, c.hidden, c.layers, c.heads, c.kv_heads,
                                   c.head_size, c.feed_forward, c.window, c.rotary_size})
    add_number(size);
  add_number(c.norm_epsilon);
  add_number(c.rope_theta);
  // A disk reads many pages at once ten times as fast as one after the other.
  for (const formats::Tensor& tensor : checkpoint.tensors())
    each_sample(tensor, formats::read_soon);
  for (const formats::Tensor& tensor : checkpoint.tensors()) {
    add(tensor.name.data(), tensor.name.size());
    add_number(tensor.type);
    add_number(tensor.bytes);
    each_sample(tensor,
                [&](std::span<const std::byte> sample) { add(sample.data(), sample.size()); });
  }
  return hash;
}

RowRange keys_of(std::uint32_t rows, const ModelConfig& config, const Shard& shard) {
  const auto kv_heads = static_cast<int>(rows / config.head_size);
  if (kv_heads % shard.ranks == 0) return rows_of(rows, shard.rank, shard.ranks);
  const int shared = shard.rank * kv_heads / shard.ranks;
  return {static_cast<std::uint32_t>(shared) * config.head_size, config.head_size};
}

formats::Tensor cut_rows(const formats::Tensor& tensor, const RowRange& range) {
  formats::Tensor part = tensor;
  const std::uint64_t row = tensor.bytes / tensor.shape.front();
  part.shape.front() = range.count;
  part.data += range.first * row;
  part.bytes = range.count * row;
  return part;
}

formats::Tensor cut_columns(const formats::Tensor& tensor, const Shard& shard,
                            std::vector<std::byte>& memory) {
  formats::Tensor part = tensor;
  const auto ranks = static_cast<std::uint64_t>(shard.ranks);
  const std::uint64_t rows = tensor.shape.front();
  const std::uint64_t row = tensor.bytes / rows;
  part.shape.back() /= ranks;
  part.bytes /= ranks;
  memory.resize(part.bytes);
  for (std::uint64_t at = 0; at < rows; ++at)
    std::memcpy(memory.data() + at * row / ranks,
                tensor.data + at * row + static_cast<std::uint64_t>(shard.rank) * row / ranks,
                row / ranks);
  part.data = memory.data();
  return part;
}

}  // namespace attacca::model
