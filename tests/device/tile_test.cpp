// Tests of the count of bank conflicts, by hand and by a slower count of another kind, and of
// PaddedTile: no conflicts along rows and columns, for any element size and width.
#include <attacca/device/tile.hpp>

#include <cstring>
#include <map>
#include <random>
#include <set>

#include "support/copy_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using device::bank_conflicts;
using device::bank_turns;
using device::kWarpLanes;
using device::padded_pitch;
using device::PaddedTile;

constexpr unsigned kElementSizes[] = {1, 2, 4, 8, 16};

constexpr unsigned conflicts_of_stride(unsigned stride, unsigned bytes) {
  return bank_conflicts(kWarpLanes, bytes, [=](unsigned lane) { return lane * stride * bytes; });
}

// A stride of a power of two reaches only some banks; odd strides reach them all.
static_assert(conflicts_of_stride(1, 4) == 0);
static_assert(conflicts_of_stride(2, 4) == 1);
static_assert(conflicts_of_stride(8, 4) == 7);
static_assert(conflicts_of_stride(32, 4) == 31);
static_assert(conflicts_of_stride(33, 4) == 0);
static_assert(conflicts_of_stride(0, 4) == 0, "one word for all is read once");
static_assert(conflicts_of_stride(1, 1) == 0, "four lanes share a word");
static_assert(conflicts_of_stride(128, 1) == 31);
// Wide elements are served half a warp or a quarter at a time, each with conflicts of its own.
static_assert(bank_turns(32, 4) == 1 && bank_turns(32, 8) == 2 && bank_turns(32, 16) == 4);
static_assert(bank_turns(16, 8) == 1 && bank_turns(1, 16) == 1 && bank_turns(32, 1) == 1);
static_assert(conflicts_of_stride(1, 8) == 0 && conflicts_of_stride(1, 16) == 0);
static_assert(conflicts_of_stride(16, 8) == 2 * 15);
static_assert(conflicts_of_stride(8, 16) == 4 * 7);

static_assert(padded_pitch(32, 4) == 33 && padded_pitch(33, 4) == 33);
static_assert(padded_pitch(32, 16) == 33 && padded_pitch(1, 8) == 1);
static_assert(padded_pitch(32, 2) == 34, "17 banks");
static_assert(padded_pitch(32, 1) == 36, "9 banks");
static_assert(PaddedTile<float, 32, 32>::kPitch == 33);
static_assert(sizeof(PaddedTile<float, 32, 32>) == 32 * 33 * sizeof(float));

/// Conflicts counted from a list of addresses, a turn at a time.
unsigned conflicts_by_list(const std::vector<unsigned>& offsets, unsigned bytes) {
  const std::size_t at_once = bytes <= 4 ? 32 : 128 / bytes;
  unsigned conflicts = 0;
  for (std::size_t first = 0; first < offsets.size(); first += at_once) {
    std::map<unsigned, std::set<unsigned>> words_of_bank;
    for (std::size_t lane = first; lane < std::min(first + at_once, offsets.size()); ++lane)
      for (unsigned byte = 0; byte < bytes; ++byte) {
        const unsigned word = (offsets[lane] + byte) / 4;
        words_of_bank[word % 32].insert(word);
      }
    std::size_t most = 1;
    for (const auto& [bank, words] : words_of_bank) most = std::max(most, words.size());
    conflicts += static_cast<unsigned>(most - 1);
  }
  return conflicts;
}

TEST(DeviceTile, conflicts_are_counted_as_by_a_list_of_words) {
  std::mt19937 random(11);
  for (const unsigned bytes : kElementSizes)
    for (int round = 0; round < 200; ++round) {
      std::vector<unsigned> offsets(1 + random() % kWarpLanes);
      const unsigned spread = 1 + random() % 300;  // small ones make lanes share words
      for (unsigned& offset : offsets) offset = random() % spread * bytes;
      const auto lanes = static_cast<unsigned>(offsets.size());
      EXPECT_EQ(bank_conflicts(lanes, bytes, [&](unsigned lane) { return offsets[lane]; }),
                conflicts_by_list(offsets, bytes))
          << lanes << " lanes of " << bytes << " bytes";
    }
}

TEST(DeviceTile, a_padded_column_never_conflicts) {
  for (const unsigned bytes : kElementSizes)
    for (unsigned columns = 1; columns <= 130; ++columns) {
      const unsigned pitch = padded_pitch(columns, bytes);
      ASSERT_GE(pitch, columns);
      for (unsigned column = 0; column < columns; ++column)
        for (const unsigned lanes : {1u, 8u, 31u, 32u})
          ASSERT_EQ(bank_conflicts(lanes, bytes,
                                   [&](unsigned lane) { return (lane * pitch + column) * bytes; }),
                    0u)
              << "column " << column << " of " << columns << ", " << bytes << " bytes";
    }
}

TEST(DeviceTile, a_padded_row_never_conflicts) {
  for (const unsigned bytes : kElementSizes)
    for (const unsigned columns : {32u, 33u, 64u, 100u, 128u}) {
      const unsigned pitch = padded_pitch(columns, bytes);
      for (unsigned row = 0; row < 40; ++row)
        for (unsigned first = 0; first + kWarpLanes <= columns; ++first)
          ASSERT_EQ(
              bank_conflicts(kWarpLanes, bytes,
                             [&](unsigned lane) { return (row * pitch + first + lane) * bytes; }),
              0u)
              << "row " << row << " of " << columns << " columns, " << bytes << " bytes";
    }
}

TEST(DeviceTile, no_narrower_pitch_of_whole_banks_would_do) {
  // One bank less, if the row still fits, is an even number of banks and gives conflicts.
  for (const unsigned bytes : kElementSizes)
    for (unsigned columns = 32; columns <= 130; ++columns) {
      const unsigned unit = bytes < 4 ? 4 / bytes : 1;
      const unsigned pitch = padded_pitch(columns, bytes);
      if (pitch < columns + unit) continue;
      EXPECT_GT(bank_conflicts(kWarpLanes, bytes,
                               [&](unsigned lane) { return lane * (pitch - unit) * bytes; }),
                0u)
          << columns << " columns of " << bytes << " bytes";
    }
}

TEST(DeviceTile, a_tile_counts_the_conflicts_of_any_access) {
  using Tile = PaddedTile<std::uint32_t, 32, 32>;
  using Place = Tile::Place;
  EXPECT_EQ(Tile::conflicts(32, [](unsigned lane) { return Place{lane, 5}; }), 0u);
  EXPECT_EQ(Tile::conflicts(32, [](unsigned lane) { return Place{5, lane}; }), 0u);
  // Along the other diagonal, lanes are 32 banks apart: padding moves the conflicts there.
  EXPECT_EQ(Tile::conflicts(32, [](unsigned lane) { return Place{lane, 31 - lane}; }), 31u);
}

class SmallDeviceTile : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallDeviceTile);

TEST_P(SmallDeviceTile, a_matrix_is_transposed_through_a_tile) {
  constexpr unsigned kRows = 70;
  constexpr unsigned kColumns = 45;
  for (const TransposeCase& of : transpose_cases()) {
    SCOPED_TRACE(testing::Message() << of.element_bytes << " bytes");
    const std::size_t size = of.element_bytes;
    std::vector<std::uint8_t> values(kRows * kColumns * size);
    std::mt19937 random(5);
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
    const Buffer<std::uint8_t> in = buffer(values);
    const Buffer<std::uint8_t> out = buffer(std::vector<std::uint8_t>(values.size(), 0xA5));
    const auto tiles = [](unsigned count) { return (count + kTransposeTile - 1) / kTransposeTile; };
    stream().kernel(of.kernel,
                    Grid{{tiles(kColumns), tiles(kRows)}, {kTransposeTile, kTransposeRows}},
                    {.in = in.data(), .out = out.data(), .rows = kRows, .columns = kColumns});
    stream().synchronize();

    std::vector<std::uint8_t> expected(values.size());
    for (unsigned row = 0; row < kRows; ++row)
      for (unsigned column = 0; column < kColumns; ++column)
        std::memcpy(expected.data() + (column * kRows + row) * size,
                    values.data() + (row * kColumns + column) * size, size);
    EXPECT_EQ(out.read(), expected);
  }
}

}  // namespace
}  // namespace attacca::test
