// compressor_blocks.hpp: the kernels of compressor.cpp for one block: measuring it, and three ways
// to write it.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "example.hpp"

namespace attacca::examples::blocks {

constexpr unsigned kBlock = 4096;  // bytes
constexpr unsigned kBlocks = 96;
enum Method : unsigned { kRaw, kRuns, kPacked, kMethods };

/// How one block was written.
struct Entry {
  unsigned method, offset, bytes;
  unsigned lowest, bits;  // packed: each value less `lowest`, in `bits` bits
};
struct State {
  unsigned taken, written;  // blocks, bytes
  // Of this block. depth is 255 minus the lowest value, so that all three start at 0.
  unsigned highest, depth, runs;
};

struct BlockKernel {
  struct Args {
    const std::uint8_t* in;  // [kBlocks, kBlock]
    std::uint8_t* out;
    Entry* index;  // [kBlocks]
    State* state;
    DeviceGraph encoders[kMethods];
  };
  static Cost cost(const Args&) { return {.flops = 2.0 * kBlock, .bytes = 2.0 * kBlock}; }
};
using Args = BlockKernel::Args;

struct Measure : BlockKernel {
  static constexpr const char* name = "measure";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const auto i = static_cast<unsigned>(t.index());
    const std::uint8_t* in = a.in + a.state->taken * kBlock;
    raise_to(a.state->highest, in[i]);
    raise_to(a.state->depth, 255u - in[i]);
    if (i == 0 || in[i] != in[i - 1]) fetch_add(a.state->runs, 1);
  }
};
struct EncodeRaw : BlockKernel {
  static constexpr const char* name = "encode raw";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const unsigned block = a.state->taken - 1;
    a.out[a.index[block].offset + t.index()] = a.in[block * kBlock + t.index()];
  }
};
struct EncodeRuns : BlockKernel {  // writes each value, then its run length minus one in two bytes
  static constexpr const char* name = "encode runs";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const unsigned block = a.state->taken - 1, i = static_cast<unsigned>(t.index());
    const std::uint8_t* in = a.in + block * kBlock;
    if (i > 0 && in[i] == in[i - 1]) return;
    unsigned runs_before = 0, more = 0;
    for (unsigned at = 1; at <= i; ++at) runs_before += in[at] != in[at - 1];
    while (i + more + 1 < kBlock && in[i + more + 1] == in[i]) ++more;
    std::uint8_t* out = a.out + a.index[block].offset + 3 * runs_before;
    out[0] = in[i];
    out[1] = static_cast<std::uint8_t>(more);
    out[2] = static_cast<std::uint8_t>(more >> 8);
  }
};
struct EncodePacked : BlockKernel {  // each thread writes one byte: eight bits of some values
  static constexpr const char* name = "encode packed";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const unsigned block = a.state->taken - 1, i = static_cast<unsigned>(t.index());
    const Entry entry = a.index[block];
    if (i >= entry.bytes) return;
    unsigned byte = 0;
    for (unsigned bit = 0; bit < 8; ++bit) {
      const unsigned at = 8 * i + bit;
      const unsigned value = a.in[block * kBlock + at / entry.bits] - entry.lowest;
      byte |= (value >> at % entry.bits & 1u) << bit;
    }
    a.out[entry.offset + i] = static_cast<std::uint8_t>(byte);
  }
};

}  // namespace attacca::examples::blocks
