// integer_tiles-inl.hpp: the loops of integer_tiles.hpp. The including file first defines `Dot`,
// which multiplies 32 columns of a few weight rows with blocks of x on one kind of processor:
//
//   X                     a block of x
//   kTileCount            rows of x that are multiplied together
//   Weights, weights<ShapeOf>(values)
//                         32 columns of four quads of rows
//   Panel, store<ShapeOf>(weights, panel)
//                         the same columns in a panel
//   products<ShapeOf, first, last>(weights or panel, x, stride, to)
//                         to[i] = sums of halves [first, last) of 16 columns times those of
//                         x[i * stride], one row of weights in each lane
//
// One or two rows of x read the weights as they are; for more, kTileRows rows are first unpacked
// into a panel that stays in the cache. Decoding is left to formats-inl.hpp, and finding rows to
// four_blocks-inl.hpp or many_blocks-inl.hpp.
#include <hwy/cache_control.h>

#include "kernels/linear/host/formats-inl.hpp"
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

/// 32 columns of a tile's rows, unpacked.
struct PanelGroup {
  Dot::Panel values;
  float scale[2][kTileRows];
  float offset[kTileRows];
};
static_assert(sizeof(PanelGroup) <= panel_bytes(32));

/// Calls use.part for each 32 columns of one turn through the blocks.
template <class Format, unsigned part = 0, class Use>
ATTACCA_STEP void for_each_part(const Blocks& blocks, const Scales<Format, Floats>& scales,
                                unsigned turn, Use& use) {
  if constexpr (part < Format::kParts) {
    const Values<VSigned> values[4] = {Format::template values<part>(blocks.quad(0), turn),
                                       Format::template values<part>(blocks.quad(1), turn),
                                       Format::template values<part>(blocks.quad(2), turn),
                                       Format::template values<part>(blocks.quad(3), turn)};
    const unsigned at = turn * Format::kParts + part;
    use.part(Dot::weights<typename Format::ShapeOf>(values), &scales.scale[at * Format::kGroups],
             scales.offset[at]);
    for_each_part<Format, part + 1>(blocks, scales, turn, use);
  }
}

/// Calls `use` for all columns of a tile's rows, and use.end behind each section of them.
template <class Format, class Use>
HWY_INLINE void for_each_block(Blocks blocks, const IntegerTile& tile, Use& use) {
  const std::uint32_t blocks_of_section = tile.w.columns / Format::kElements / tile.sections;
  Bytes ahead = blocks.following_rows();
  for (std::uint32_t section = 0; section < tile.sections; ++section) {
    for (std::uint32_t left = blocks_of_section; left != 0; --left) {
      for (unsigned line = 0; line < kTileRows * Format::kBytes; line += 64)
        hwy::Prefetch(ahead + line);
      ahead += kTileRows * Format::kBytes;
      Scales<Format, Floats> scales;
      Format::scales(blocks, scales);
      for (unsigned turn = 0; turn < Format::kElements / 32 / Format::kParts; ++turn)
        for_each_part<Format>(blocks, scales, turn, use);
      blocks.advance(Format::kBytes);
    }
    use.end();
  }
}

/// Adds the products of 32 columns with blocks of x, which are `stride` apart.
template <class ShapeOf, class Columns, unsigned count>
ATTACCA_STEP void multiply_add(VFloats (&sum)[count], const Columns& w, const VFloats* scale,
                               VFloats offset, const Dot::X* x, std::size_t stride) {
  VInts products[ShapeOf::kGroups][count];
  if constexpr (ShapeOf::kGroups == 1) {
    Dot::products<ShapeOf, 0, 2>(w, x, stride, products[0]);
  } else {
    Dot::products<ShapeOf, 0, 1>(w, x, stride, products[0]);
    Dot::products<ShapeOf, 1, 2>(w, x, stride, products[1]);
  }
  const Floats d;
#pragma GCC unroll 8
  for (unsigned i = 0; i < count; ++i, x += stride) {
#pragma GCC unroll 2
    for (unsigned group = 0; group < ShapeOf::kGroups; ++group)
      sum[i] = hn::MulAdd(hn::ConvertTo(d, products[group][i]),
                          hn::Mul(scale[group], hn::Set(d, x->scale)), sum[i]);
    if constexpr (ShapeOf::kHasOffset) sum[i] = hn::MulAdd(offset, hn::Set(d, x->sum), sum[i]);
  }
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
    multiply_add<typename Format::ShapeOf>(sum, w, scale, offset, x++, stride);
  }
  HWY_INLINE void end() { joined.take(section++, sum); }
};

/// Writes a panel.
template <class Format>
struct Unpack {
  PanelGroup* to;

  ATTACCA_STEP void part(const Dot::Weights& w, const VFloats* scale, VFloats offset) {
    const Floats d;
    Dot::store<typename Format::ShapeOf>(w, to->values);
#pragma GCC unroll 2
    for (unsigned group = 0; group < Format::kGroups; ++group)
      hn::StoreU(scale[group], d, to->scale[group]);
    if constexpr (Format::kHasOffset) hn::StoreU(offset, d, to->offset);
    ++to;
  }
  HWY_INLINE void end() {}
};

template <class Format, unsigned count>
HWY_NOINLINE void multiply_few(const Blocks& blocks, const IntegerTile& tile, float* out) {
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
      VFloats scale[ShapeOf::kGroups];
#pragma GCC unroll 2
      for (unsigned group = 0; group < ShapeOf::kGroups; ++group)
        scale[group] = hn::LoadU(d, panel->scale[group]);
      VFloats offset = hn::Zero(d);
      if constexpr (ShapeOf::kHasOffset) offset = hn::LoadU(d, panel->offset);
      multiply_add<ShapeOf>(sum, panel->values, scale, offset, x, groups);
    }
    joined.take(section, sum);
  }
}

/// From row `i` of x on, `most` rows at a time, then half as many.
template <class ShapeOf, unsigned most = Dot::kTileCount>
void multiply_rows(const PanelGroup* panel, const IntegerTile& tile, std::uint32_t i, float* out) {
  const std::size_t groups = tile.w.columns / 32;
  const Dot::X* x = static_cast<const Dot::X*>(tile.x);
  for (; i + most <= tile.count; i += most)
    multiply_panel<ShapeOf, most>(panel, tile, x + i * groups, out + i * kTileOutputs);
  if constexpr (most > 1) multiply_rows<ShapeOf, most / 2>(panel, tile, i, out);
}

template <class Format>
HWY_NOINLINE void multiply_many(const Blocks& blocks, const IntegerTile& tile, float* out) {
  PanelGroup* panel = reinterpret_cast<PanelGroup*>(tile.panel);
  Unpack<Format> unpack{panel};
  for_each_block<Format>(blocks, tile, unpack);
  multiply_rows<typename Format::ShapeOf>(panel, tile, 0, out);
}

template <class Format>
void multiply_format(const IntegerTile& tile) {
  for (std::uint32_t row = 0; row < tile.rows; row += kTileRows) {
    const Blocks blocks(tile, row);
    float* out = tile.out + row;
    switch (tile.count) {
      case 1:
        multiply_few<Format, 1>(blocks, tile, out);
        break;
      case 2:
        multiply_few<Format, 2>(blocks, tile, out);
        break;
      default:
        multiply_many<Format>(blocks, tile, out);
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
