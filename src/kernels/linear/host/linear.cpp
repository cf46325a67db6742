// linear.cpp: the host bodies of linear and gated_linear. Rows of x are taken in batches that fit
// in the second-level cache, and each batch is multiplied by all weights of the block. So with few
// rows weights are read once. The products are in float_tiles.hpp and integer_tiles.hpp.
#include "kernels/linear/host/linear.hpp"

#include <algorithm>
#include <vector>

#include "kernels/blocks.hpp"
#include "kernels/host/row_block.hpp"
#include "kernels/linear/host/float_tiles.hpp"
#include "kernels/linear/host/integer_tiles.hpp"
#include "kernels/linear/host/silu.hpp"

namespace attacca::kernels::host {
namespace {

constexpr std::uint32_t kMaxCount = 64;          // rows of x of a batch
constexpr std::size_t kCacheBytes = 384 * 1024;  // of the second-level cache, for rows of x
using TileOut = float[kMaxCount][kTileOutputs];

/// Memory that each thread keeps from call to call.
class Scratch {
 public:
  std::byte* bytes(std::size_t size) {
    if (lines_.size() * sizeof(Line) < size)
      lines_.resize((size + sizeof(Line) - 1) / sizeof(Line));
    return lines_.data()->bytes;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

/// A batch of rows of x in the layout that the tiles read.
class RowsTile {
 public:
  RowsTile(const Rows& x, std::uint32_t first, std::uint32_t count) : x_(x), count_(count) {
    data_ = x.row(first);
    const IntegerPath& path = best_path();
    if (x.format != RowFormat::i16 || !path.prepare) return;
    thread_local Scratch scratch;
    const std::size_t blocks = std::size_t{count} * (x.columns / RowBlock::kElements);
    std::byte* prepared = scratch.bytes(blocks * kPreparedBytes);
    path.prepare(static_cast<const RowBlock*>(data_), blocks, prepared);
    blocks_ = prepared;
  }

  static std::uint32_t most(const Rows& x) {
    const std::size_t fit = kCacheBytes / std::max<std::size_t>(1, row_stride(x.format, x.columns));
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(fit / 4 * 4, 8, kMaxCount));
  }

  std::uint32_t count() const { return count_; }

  /// out[i][r] = row first + r of w times row i, in sections; with `adds`, out comes with section
  /// 0.
  void multiply(const Matrix& w, std::uint32_t first, std::uint32_t rows, TileOut& out,
                std::uint32_t sections = 1, bool adds = false) {
    thread_local Scratch panel;
    std::byte* at = panel.bytes(panel_bytes(w.columns));
    if (x_.format == RowFormat::i16 && is_quantized(w.type))
      best_path().multiply(
          {w, first, rows, blocks_ ? blocks_ : data_, count_, at, &out[0][0], sections, adds});
    else
      host::multiply(FloatTile{w, first, rows, floats(), count_, at, &out[0][0], sections, adds});
  }

 private:
  /// The rows as floats, for when some weights are floats and others quantized.
  const float* floats() {
    if (x_.format == RowFormat::f32) return static_cast<const float*>(data_);
    if (floats_) return floats_;
    thread_local Scratch scratch;
    const std::size_t blocks = std::size_t{count_} * (x_.columns / RowBlock::kElements);
    float* to = reinterpret_cast<float*>(scratch.bytes(blocks * 32 * sizeof(float)));
    floats_ = to;
    const RowBlock* block = static_cast<const RowBlock*>(data_);
    for (const RowBlock* end = block + blocks; block != end; ++block)
      for (const std::int16_t value : block->values) *to++ = block->scale * value;
    return floats_;
  }

  const Rows& x_;
  std::uint32_t count_;
  const void* data_;
  const std::byte* blocks_ = nullptr;
  const float* floats_ = nullptr;
};

template <class Use>
void for_each_rows_tile(const Rows& x, const RowCount& rows, Use use) {
  const std::uint32_t count = std::min(*rows.count, rows.capacity);
  const std::uint32_t most = RowsTile::most(x);
  for (std::uint32_t first = 0; first < count; first += most) {
    RowsTile tile(x, first, std::min(most, count - first));
    use(tile, first);
  }
}

}  // namespace

void linear(const LinearArgs& args, unsigned block, unsigned blocks) {
  std::uint32_t tiles = 0;
  std::size_t outputs = 0;
  for (std::uint32_t part = 0; part < args.parts; ++part) {
    tiles += tiles_of(args.w[part]);
    outputs += args.w[part].rows;
  }
  const RowRange range = rows_of_block(tiles, block, blocks);
  for_each_rows_tile(args.x, args.rows, [&](RowsTile& x, std::uint32_t first_x) {
    std::uint32_t part = 0;
    std::uint32_t part_tile = 0;  // the part's first tile
    std::size_t part_output = 0;
    for (std::uint32_t tile = range.first; tile < range.last; ++tile) {
      while (tile - part_tile >= tiles_of(args.w[part])) {
        part_tile += tiles_of(args.w[part]);
        part_output += args.w[part++].rows;
      }
      const Matrix& w = args.w[part];
      const std::uint32_t first = (tile - part_tile) * kTileOutputs;
      const std::uint32_t rows = std::min(kTileOutputs, w.rows - first);
      TileOut out;
      const auto y_of = [&](std::uint32_t i) {
        return args.y + (first_x + i) * outputs + part_output + first;
      };
      if (args.sections > 1) {
        // Behind `rows` are results that nobody reads, but they must be initialized.
        for (std::uint32_t i = 0; args.adds && i < x.count(); ++i)
          std::fill(std::copy_n(y_of(i), rows, out[i]), out[i] + kTileOutputs, 0.0f);
        x.multiply(w, first, rows, out, args.sections, args.adds);
        for (std::uint32_t i = 0; i < x.count(); ++i) std::copy_n(out[i], rows, y_of(i));
        continue;
      }
      x.multiply(w, first, rows, out);
      const float* bias = args.bias[part] ? args.bias[part] + first : nullptr;
      for (std::uint32_t i = 0; i < x.count(); ++i) {
        float* y = y_of(i);
        for (std::uint32_t r = 0; r < rows; ++r) {
          const float value = bias ? out[i][r] + bias[r] : out[i][r];
          y[r] = args.adds ? y[r] + value : value;
        }
      }
    }
  });
}

void gated_linear(const GatedLinearArgs& args, unsigned block, unsigned blocks) {
  const RowRange range = rows_of_block(tiles_of(args.gate), block, blocks);
  for_each_rows_tile(args.x, args.rows, [&](RowsTile& x, std::uint32_t first_x) {
    for (std::uint32_t tile = range.first; tile < range.last; ++tile) {
      const std::uint32_t first = tile * kTileOutputs;
      const std::uint32_t rows = std::min(kTileOutputs, args.gate.rows - first);
      TileOut gate;
      TileOut up;
      if (rows < kTileOutputs) {  // gate_32 reads whole vectors, so the rest must be initialized
        std::fill_n(&gate[0][0], sizeof gate / sizeof(float), 0.0f);
        std::fill_n(&up[0][0], sizeof up / sizeof(float), 0.0f);
      }
      x.multiply(args.gate, first, rows, gate);
      x.multiply(args.up, first, rows, up);
      for (std::uint32_t i = 0; i < x.count(); ++i) {
        gate_32(gate[i], up[i]);
        void* y = args.y.row(first_x + i);
        if (args.y.format == RowFormat::i16)
          to_row_blocks(gate[i], kTileOutputs, static_cast<RowBlock*>(y) + tile);
        else
          std::copy_n(gate[i], rows, static_cast<float*>(y) + first);
      }
    }
  });
}

}  // namespace attacca::kernels::host
