// compressor: the device looks at the data and launches the work that suits it.
//
// A graph measures one block of the input, chooses the method that makes it smallest, launches that
// method's graph as its tail and then itself again for the next block. Tails run in order, so a
// block is written before the next one is looked at. The host makes one launch for the whole input.
#include <array>
#include <attacca/attacca.hpp>
#include <random>

#include "compressor_blocks.hpp"
#include "example.hpp"

namespace attacca::examples {
namespace {

using namespace blocks;

struct Choose : BlockKernel {
  static constexpr const char* name = "choose";
  static Cost cost(const Args&) {
    return {.flops = 20, .bytes = 2.0 * sizeof(State) + sizeof(Entry)};
  }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    State& s = *a.state;
    Entry entry{kRaw, s.written, kBlock, 255u - s.depth, 0};
    while ((s.highest - entry.lowest) >> entry.bits) ++entry.bits;
    const unsigned packed = entry.bits * kBlock / 8, runs = 3 * s.runs;
    if (packed < entry.bytes) entry.method = kPacked, entry.bytes = packed;
    if (runs < entry.bytes) entry.method = kRuns, entry.bytes = runs;
    a.index[s.taken++] = entry;
    s.written += entry.bytes;
    if (entry.bytes > 0) t.launch(a.encoders[entry.method], LaunchMode::tail);
    if (s.taken < kBlocks) t.relaunch_self();
  }
};

const Kernel<Args> measure = make_kernel<Measure>();
const Kernel<Args> choose = make_kernel<Choose>();
const Kernel<Args> encode[kMethods] = {make_kernel<EncodeRaw>(), make_kernel<EncodeRuns>(),
                                       make_kernel<EncodePacked>()};

Graph build(const Device& device, const Args& args) {
  Graph graph(device, "compressor");
  const auto clear = graph.fill(&args.state->highest, 0, 3 * sizeof(unsigned)).named("clear");
  const auto measured = graph.kernel(measure, Grid::covering(kBlock), args).after(clear);
  graph.kernel(choose, Grid{}, args).after(measured);
  return graph;
}

/// Four kinds of blocks by turns: equal bytes, long runs, small values, noise.
std::vector<std::uint8_t> make_input() {
  std::vector<std::uint8_t> bytes(kBlocks * kBlock);
  std::mt19937 random(1);
  for (unsigned i = 0; i < bytes.size(); ++i) {
    const unsigned kind = i / kBlock % 4, value = random() >> 8;
    const bool goes_on = i % kBlock > 0 && (kind == 0 || (kind == 1 && value % 64 > 0));
    const unsigned fresh = kind == 2 ? 'a' + value % 26 : value;
    bytes[i] = goes_on ? bytes[i - 1] : static_cast<std::uint8_t>(fresh);
  }
  return bytes;
}

std::vector<std::uint8_t> decode(const std::vector<std::uint8_t>& out,
                                 const std::vector<Entry>& index) {
  std::vector<std::uint8_t> bytes;
  for (const Entry& entry : index) {
    const std::uint8_t* from = out.data() + entry.offset;
    if (entry.method == kRaw) bytes.insert(bytes.end(), from, from + kBlock);
    for (unsigned at = 0; entry.method == kRuns && at < entry.bytes; at += 3)
      bytes.insert(bytes.end(), from[at + 1] + 256u * from[at + 2] + 1, from[at]);
    for (unsigned i = 0; entry.method == kPacked && i < kBlock; ++i) {
      unsigned value = 0;
      for (unsigned bit = 0, at = i * entry.bits; bit < entry.bits; ++bit, ++at)
        value |= (from[at / 8] >> at % 8 & 1u) << bit;
      bytes.push_back(static_cast<std::uint8_t>(entry.lowest + value));
    }
  }
  return bytes;
}

void run(const Device& device, std::ostream& out) {
  const std::vector<std::uint8_t> input = make_input();
  const Buffer<std::uint8_t> in(device, input), compressed(device, input.size());
  const Buffer<Entry> index(device, kBlocks);
  const Buffer<State> state(device, std::vector<State>(1));
  Args args{in.data(), compressed.data(), index.data(), state.data(), {}};

  std::vector<DeviceExec> encoders;
  for (unsigned method = 0; method < kMethods; ++method) {
    Graph graph(device, encode[method].info().name);
    graph.kernel(encode[method], Grid::covering(kBlock), args);
    encoders.push_back(graph.instantiate_for_device());
    args.encoders[method] = encoders.back().handle();
  }
  DeviceExec compressor = build(device, args).instantiate_for_device();
  const Stream stream(device);
  compressor.start(stream);
  stream.synchronize();

  expect(decode(compressed.read(), index.read()) == input,
         "what was compressed does not come back");
  std::array<unsigned, kMethods> chosen{};
  for (const Entry& entry : index.read()) ++chosen[entry.method];
  const std::size_t bytes = state.read()[0].written + index.bytes();
  out << kBlocks << " blocks, " << compressor.counters().launches
      << " launch by the host: " << chosen[kRaw] << " raw, " << chosen[kRuns] << " as runs, "
      << chosen[kPacked] << " packed\n"
      << input.size() << " bytes became " << bytes << ", " << 100 * bytes / input.size()
      << "%, and came back byte for byte.\n";
}

Graph graph(const Device& device) {
  const Buffer<State> state(device, 1);
  return build(device, {nullptr, nullptr, nullptr, state.data(), {}});
}

}  // namespace

const Example compressor{"compressor",
                         "the device looks at each block and launches the encoder that suits it",
                         graph, run};

}  // namespace attacca::examples
