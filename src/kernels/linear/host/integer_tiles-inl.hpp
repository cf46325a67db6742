// integer_tiles-inl.hpp: the loops of integer_tiles.hpp over a `Dot`, which multiplies 32 columns
// of four weight rows with a block of x on one kind of processor. The including file defines `Dot`
// first. One or two rows of x read the weights as they are; for more, four rows are first unpacked
// into a panel that stays in the cache. Decoding is left to formats-inl.hpp.
#include <hwy/cache_control.h>

#include "kernels/linear/host/four_blocks-inl.hpp"
#include "kernels/linear/host/integer_tiles.hpp"
#include "kernels/linear/host/joined-inl.hpp"

#if defined(ATTACCA_INTEGER_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_INTEGER_TILES_INL
#undef ATTACCA_INTEGER_TILES_INL
#else
#define ATTACCA_INTEGER_TILES_INL
#endif

// One step of a loop over the columns. Under the address sanitizer it is a function call: with
// inlining, this file took minutes to compile.
#undef ATTACCA_STEP
#if defined(__SANITIZE_ADDRESS__)
#define ATTACCA_STEP HWY_NOINLINE
#else
#define ATTACCA_STEP HWY_INLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

/// Rows of x that are computed together.
inline constexpr unsigned kTileCount = 4;

/// 32 columns of four weight rows, unpacked.
struct PanelGroup {
  Dot::PanelValues values;
  float scale[2][kTileRows];
  float offset[kTileRows];
};
static_assert(sizeof(PanelGroup) <= panel_bytes(32));

/// Calls use.part for each 32 columns of one turn through four blocks.
template <class Format, unsigned part = 0, class Use>
ATTACCA_STEP void for_each_part(const FourBlocks& blocks, const Scales<Format, Floats>& scales,
                                unsigned turn, Use& use) {
  if constexpr (part < Format::kParts) {
    const Values<VSigned> values[kTileRows] = {Format::template values<part>(blocks.at[0], turn),
                                               Format::template values<part>(blocks.at[1], turn),
                                               Format::template values<part>(blocks.at[2], turn),
                                               Format::template values<part>(blocks.at[3], turn)};
    const unsigned at = turn * Format::kParts + part;
    use.part(Dot::weights(values), &scales.scale[at * Format::kGroups], scales.offset[at]);
    for_each_part<Format, part + 1>(blocks, scales, turn, use);
  }
}

/// Calls `use` for all columns of four rows of weights, and use.end behind each section of them.
template <class Format, class Use>
HWY_INLINE void for_each_block(FourBlocks blocks, const IntegerTile& tile, Use& use) {
  const Matrix& w = tile.w;
  const std::uint32_t blocks_of_section = w.columns / Format::kElements / tile.sections;
  // Prefetches the following four rows.
  Bytes ahead = blocks.at[0] + kTileRows * row_bytes(w.type, w.columns);
  for (std::uint32_t section = 0; section < tile.sections; ++section) {
    for (std::uint32_t left = blocks_of_section; left != 0; --left) {
      for (unsigned line = 0; line < kTileRows * Format::kBytes; line += 64)
        hwy::Prefetch(ahead + line);
      ahead += kTileRows * Format::kBytes;
      Scales<Format, Floats> scales;
      Format::scales(blocks, scales);
      for (unsigned turn = 0; turn < Format::kElements / 32 / Format::kParts; ++turn)
        for_each_part<Format>(blocks, scales, turn, use);
#pragma GCC unroll 8
      for (Bytes& at : blocks.at) at += Format::kBytes;
    }
    use.end();
  }
}

/// Products of 32 columns of four weight rows with a block of x.
template <class ShapeOf, class Weights>
ATTACCA_STEP VFloats multiply_add(VFloats sum, const Weights& w, const VFloats* scale,
                                  VFloats offset, const Dot::X& x) {
  VInts products[ShapeOf::kGroups];
  if constexpr (ShapeOf::kGroups == 1) {
    products[0] = Dot::products<0, 2>(w, x);
  } else {
    products[0] = Dot::products<0, 1>(w, x);
    products[1] = Dot::products<1, 2>(w, x);
  }
  const Floats d;
#pragma GCC unroll 8
  for (unsigned group = 0; group < ShapeOf::kGroups; ++group)
    sum = hn::MulAdd(hn::ConvertTo(d, products[group]), hn::Mul(scale[group], hn::Set(d, x.scale)),
                     sum);
  if constexpr (ShapeOf::kHasOffset) sum = hn::MulAdd(offset, hn::Set(d, x.sum), sum);
  return sum;
}

/// Multiplies weights as they are read.
template <class Format, unsigned count>
struct Direct {
  const Dot::X* x;
  std::size_t stride;
  Joined<Floats, count> joined;
  std::uint32_t section = 0;
  VFloats sum[count];

  HWY_INLINE Direct(const IntegerTile& tile, float* out)
      : x(static_cast<const Dot::X*>(tile.x)), stride(tile.w.columns / 32), joined(tile, out) {
#pragma GCC unroll 8
    for (VFloats& s : sum) s = hn::Zero(Floats());
  }
  HWY_INLINE void part(const Dot::Weights& w, const VFloats* scale, VFloats offset) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i)
      sum[i] = multiply_add<typename Format::ShapeOf>(sum[i], w, scale, offset, x[i * stride]);
    ++x;
  }
  HWY_INLINE void end() { joined.take(section++, sum); }
};

/// Writes a panel.
template <class Format>
struct Unpack {
  PanelGroup* to;

  ATTACCA_STEP void part(const Dot::Weights& w, const VFloats* scale, VFloats offset) {
    const Floats d;
    Dot::store(w, to->values);
#pragma GCC unroll 8
    for (unsigned group = 0; group < Format::kGroups; ++group)
      hn::StoreU(scale[group], d, to->scale[group]);
    if constexpr (Format::kHasOffset) hn::StoreU(offset, d, to->offset);
    ++to;
  }
  HWY_INLINE void end() {}
};

template <class Format, unsigned count>
HWY_NOINLINE void multiply_few(const IntegerTile& tile, const FourBlocks& blocks, float* out) {
  Direct<Format, count> direct(tile, out);
  for_each_block<Format>(blocks, tile, direct);
}

template <class ShapeOf, unsigned count>
HWY_NOINLINE void multiply_panel(const PanelGroup* panel, const IntegerTile& tile, const Dot::X* x,
                                 float* out) {
  const Floats d;
  const std::size_t groups = tile.w.columns / 32;
  Joined<Floats, count> joined(tile, out);
  VFloats sum[count];
#pragma GCC unroll 8
  for (VFloats& s : sum) s = hn::Zero(d);
  for (std::uint32_t section = 0; section < tile.sections; ++section) {
    for (const PanelGroup* end = panel + groups / tile.sections; panel != end; ++panel, ++x) {
      const Dot::PanelWeights w = Dot::load(panel->values);
      VFloats scale[ShapeOf::kGroups];
#pragma GCC unroll 8
      for (unsigned group = 0; group < ShapeOf::kGroups; ++group)
        scale[group] = hn::LoadU(d, panel->scale[group]);
      VFloats offset = hn::Zero(d);
      if constexpr (ShapeOf::kHasOffset) offset = hn::LoadU(d, panel->offset);
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i)
        sum[i] = multiply_add<ShapeOf>(sum[i], w, scale, offset, x[i * groups]);
    }
    joined.take(section, sum);
  }
}

template <class Format>
HWY_NOINLINE void multiply_same_bits(const IntegerTile& tile, const FourBlocks& blocks,
                                     float* out) {
  const std::size_t groups = tile.w.columns / 32;
  PanelGroup* panel = reinterpret_cast<PanelGroup*>(tile.panel);
  Unpack<Format> unpack{panel};
  for_each_block<Format>(blocks, tile, unpack);
  const Dot::X* x = static_cast<const Dot::X*>(tile.x);
  std::uint32_t i = 0;
  for (; i + kTileCount <= tile.count; i += kTileCount)
    multiply_panel<typename Format::ShapeOf, kTileCount>(panel, tile, x + i * groups,
                                                         out + i * kTileOutputs);
  for (; i < tile.count; ++i)
    multiply_panel<typename Format::ShapeOf, 1>(panel, tile, x + i * groups,
                                                out + i * kTileOutputs);
}

template <class Format>
void multiply_format(const IntegerTile& tile) {
  for (std::uint32_t row = 0; row < tile.rows; row += kTileRows) {
    FourBlocks blocks;
    for (unsigned r = 0; r < kTileRows; ++r) {
      // Past the last row, that row is computed again and not used.
      const std::uint32_t at = row + r < tile.rows ? row + r : tile.rows - 1;
      blocks.at[r] = static_cast<Bytes>(tile.w.row(tile.first + at));
    }
    float* out = tile.out + row;
    switch (tile.count) {
      case 1:
        multiply_few<Format, 1>(tile, blocks, out);
        break;
      case 2:
        multiply_few<Format, 2>(tile, blocks, out);
        break;
      default:
        multiply_same_bits<Format>(tile, blocks, out);
    }
  }
}

struct Multiply {
  const IntegerTile& tile;
  template <class Format>
  void in() const {
    multiply_format<Format>(tile);
  }
};

void multiply(const IntegerTile& tile) { with_format(tile.w.type, Multiply{tile}); }

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
