// access.cpp: what an access pattern costs: stride and alignment against the 32-byte sectors that
// they touch, bytes per access, and shared-memory banks. The host's part is in access_host.cpp.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>
#include <attacca/device/tile.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "claims/access.hpp"
#include "raw.hpp"
#endif

namespace bench {

void access_on_host(Run& run);

namespace {

#if ATTACCA_WITH_CUDA
using accessing::Arrays;
using accessing::Pattern;
using accessing::Transpose;

constexpr unsigned kSide = 8192;  // of the matrix that fills an array
constexpr std::uint64_t kWords = std::uint64_t{kSide} * kSide;
constexpr unsigned kWarp = 32;
constexpr unsigned kSectorBytes = 32;
constexpr unsigned kSectorsAtBest = kWarp * sizeof(unsigned) / kSectorBytes;
constexpr const char* kGuide =
    "CUDA C++ Best Practices Guide, https://docs.nvidia.com/cuda/pdf/"
    "CUDA_C_Best_Practices_Guide.pdf";

/// Sectors that one access of a warp touches.
unsigned sectors_of(Pattern pattern) {
  std::set<unsigned> sectors;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    sectors.insert((pattern.offset + lane * pattern.stride) * sizeof(unsigned) / kSectorBytes);
  return static_cast<unsigned>(sectors.size());
}

/// Two arrays, and samples of kernels that copy one to the other.
class Copies {
 public:
  explicit Copies(Gpu& gpu)
      : gpu_(gpu),
        in_(gpu.device, kWords),
        out_(gpu.device, kWords),
        wrong_(gpu.device, std::vector<unsigned>{0}) {
    check(accessing::launch_fill(in_.data(), kWords, gpu.native));
  }
  Arrays arrays() const { return {in_.data(), out_.data(), kWords}; }
  cudaStream_t stream() const { return gpu_.native; }

  /// Returns a function that measures the GB/s read and written by `launch`, counting `words`
  /// words. It first checks the copy: `count_wrong` compares the output.
  template <class Launch, class CountWrong>
  std::function<double()> sample(std::string what, std::uint64_t words, Launch launch,
                                 CountWrong count_wrong) {
    check(cudaMemsetAsync(out_.data(), accessing::kPoison & 0xFF, out_.bytes(), stream()));
    check(launch());
    check(count_wrong(wrong_.data()));
    gpu_.synchronize();
    if (const unsigned wrong = wrong_.read().front())
      throw attacca::Error(fmt::format("{} left {} wrong words", what, wrong));
    return [this, words, launch] {
      const double us = gpu_.device_microseconds([&] { check(launch()); });
      return 2e-3 * static_cast<double>(words * sizeof(unsigned)) / us;
    };
  }
  std::function<double()> strided(Pattern pattern) {
    return sample(
        fmt::format("a copy with stride {} and offset {}", pattern.stride, pattern.offset),
        accessing::accesses(kWords, pattern),
        [=, this] { return accessing::launch_strided(arrays(), pattern, stream()); },
        [=, this](unsigned* wrong) {
          return accessing::launch_check_strided(arrays(), pattern, wrong, stream());
        });
  }
  std::function<double()> wide(unsigned bytes, bool is_four_each) {
    return sample(
        fmt::format("a copy of {} bytes each", bytes), kWords,
        [=, this] { return accessing::launch_wide(arrays(), bytes, is_four_each, stream()); },
        [this](unsigned* wrong) {
          return accessing::launch_check_strided(arrays(), {1, 0}, wrong, stream());
        });
  }
  std::function<double()> transposed(Transpose how) {
    return sample(
        "a transpose", kWords,
        [=, this] { return accessing::launch_transpose(arrays(), kSide, how, stream()); },
        [this](unsigned* wrong) {
          return accessing::launch_check_transpose(arrays(), kSide, wrong, stream());
        });
  }

 private:
  Gpu& gpu_;
  attacca::Buffer<unsigned> in_;
  attacca::Buffer<unsigned> out_;
  attacca::Buffer<unsigned> wrong_;
};

Row rate(std::string name, nlohmann::ordered_json params, const Summary& value, double floor) {
  return Row{.name = std::move(name),
             .params = std::move(params),
             .value = value,
             .unit = "GB/s",
             .floor = floor,
             .is_rate = true};
}

/// Measures copies of all widths and returns the fastest, the floor of all copies.
double measure_widths(Run& run, Copies& copies) {
  constexpr unsigned kBytes[] = {1, 2, 4, 8, 16};
  std::vector<std::function<double()>> samples;
  for (const unsigned bytes : kBytes)
    for (const bool is_four : {false, true}) samples.push_back(copies.wide(bytes, is_four));
  const auto rates = run.interleave("bytes per access", 21, samples);
  double floor = 0;
  for (const Summary& value : rates) floor = std::max(floor, value.median);
  std::map<unsigned, double> one;
  std::map<unsigned, double> four;
  for (std::size_t at = 0; at < std::size(kBytes); ++at) {
    one[kBytes[at]] = rates[2 * at].median;
    four[kBytes[at]] = rates[2 * at + 1].median;
    run.add(rate("copy, one access a thread", {{"bytes", kBytes[at]}}, rates[2 * at], floor));
    run.add(
        rate("copy, four accesses a thread", {{"bytes", kBytes[at]}}, rates[2 * at + 1], floor));
  }
  run.add(Plot{.title = "Bytes per access",
               .x = "bytes",
               .x_label = "bytes a thread reads and writes at once",
               .y_label = "GB/s"});
  const double gain = one[16] / one[4];
  run.add(Finding{
      "Loading float4 instead of float doubles the throughput of a copy.",
      "Vectorized Loads, "
      "https://fridayswithfaraday.com/posts/cuda-kernel-eng-vectorized-loads-128bit",
      fmt::format("16 bytes a thread copied {:.2f} times as fast as 4; four separate accesses of 4 "
                  "bytes gave {:.2f} times",
                  gain, four[4] / one[4]),
      gain >= 1.8   ? Verdict::held
      : gain >= 1.1 ? Verdict::partly
                    : Verdict::failed});
  return floor;
}

void measure_strides(Run& run, Copies& copies, double floor) {
  constexpr unsigned kStrides[] = {1, 2, 4, 8, 16, 32, 64};
  std::vector<std::function<double()>> samples;
  for (const unsigned stride : kStrides) samples.push_back(copies.strided({stride, 0}));
  const auto rates = run.interleave("stride", 21, samples);
  std::map<unsigned, double> by_stride;
  for (std::size_t at = 0; at < std::size(kStrides); ++at) {
    const unsigned sectors = sectors_of({kStrides[at], 0});
    by_stride[kStrides[at]] = rates[at].median;
    Row row = rate("copy with a stride", {{"stride", kStrides[at]}, {"sectors", sectors}},
                   rates[at], floor);
    row.baseline = rates.front().median * kSectorsAtBest / sectors;
    run.add(std::move(row));
  }
  run.add(Plot{.title = "Stride",
               .x = "stride",
               .x_label = "words from one thread's to the next one's",
               .y_label = "useful GB/s",
               .is_log_y = true,
               .rows = {"copy with a stride"}});
  const double half = by_stride[2] / by_stride[1];
  const double least = std::min({by_stride[16], by_stride[32], by_stride[64]}) / by_stride[8];
  const bool is_half = half > 0.45 && half < 0.55;
  run.add(Finding{
      "A stride of two halves the efficiency, and bandwidth falls with the stride until every "
      "thread loads a 32-byte segment of its own.",
      kGuide,
      fmt::format("stride 2 gave {:.2f} of stride 1, stride 8 {:.3f}; beyond, where sectors say "
                  "nothing changes, it fell to {:.2f} of stride 8",
                  half, by_stride[8] / by_stride[1], least),
      is_half && least >= 0.9   ? Verdict::held
      : is_half || least >= 0.9 ? Verdict::partly
                                : Verdict::failed});
}

void measure_offsets(Run& run, Copies& copies, double floor) {
  constexpr unsigned kOffsets[] = {0, 1, 2, 4, 8, 12, 16, 31};
  std::vector<std::function<double()>> samples;
  for (const unsigned offset : kOffsets) samples.push_back(copies.strided({1, offset}));
  const auto rates = run.interleave("alignment", 31, samples);
  const double aligned = rates.front().median;
  double worst = 1;
  for (std::size_t at = 0; at < std::size(kOffsets); ++at) {
    const unsigned sectors = sectors_of({1, kOffsets[at]});
    if (sectors > kSectorsAtBest) worst = std::min(worst, rates[at].median / aligned);
    Row row = rate("copy off its alignment", {{"offset", kOffsets[at]}, {"sectors", sectors}},
                   rates[at], floor);
    row.baseline = aligned;
    run.add(std::move(row));
  }
  run.add(Finding{
      "Misaligned warps touch five segments instead of four; since neighbours share them, the copy "
      "still reaches about nine tenths.",
      kGuide,
      fmt::format("the worst offset that touches a fifth sector reached {:.2f} of the aligned copy",
                  worst),
      worst > 0.95   ? Verdict::partly  // cheaper than said
      : worst > 0.85 ? Verdict::held
                     : Verdict::failed});
}

void measure_transposes(Run& run, Copies& copies, double floor) {
  const auto rates =
      run.interleave("transpose", 21,
                     {copies.transposed(Transpose::naive), copies.transposed(Transpose::tile),
                      copies.transposed(Transpose::padded_tile)});
  const char* names[] = {"transpose, written by columns", "transpose through a tile",
                         "transpose through a padded tile"};
  for (std::size_t at = 0; at < std::size(names); ++at) {
    Row row = rate(names[at], {}, rates[at], floor);
    row.baseline = rates.front().median;
    run.add(std::move(row));
  }
  const double tiling = rates[1].median / rates[0].median;
  const double padding = rates[2].median / rates[1].median;
  const char* source =
      "Matrix Transpose, "
      "https://fridayswithfaraday.com/posts/cuda-kernel-eng-matrix-transpose-optimization";
  run.add(Finding{"A tile in shared memory makes a transpose six times as fast.", source,
                  fmt::format("{:.2f} times", tiling),
                  tiling >= 5     ? Verdict::held
                  : tiling >= 1.2 ? Verdict::partly
                                  : Verdict::failed});
  run.add(Finding{
      "One column of padding makes it 1.8 times as fast again.", source,
      fmt::format("{:.2f} times; {:.0f} % of a plain copy", padding, rates[2].median / floor * 100),
      padding >= 1.6    ? Verdict::held
      : padding >= 1.05 ? Verdict::partly
                        : Verdict::failed});
}

void measure_banks(Run& run, Gpu& gpu) {
  constexpr unsigned kStrides[] = {1, 2, 4, 8, 16, 32, 33};
  constexpr unsigned kBlocksPerSm = 8;
  constexpr unsigned kRounds = 256;
  int index = 0;
  int sms = 0;
  check(cudaGetDevice(&index));
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, index));
  const unsigned blocks = static_cast<unsigned>(sms) * kBlocksPerSm;
  attacca::Buffer<unsigned> out(gpu.device, blocks * accessing::kThreads);
  std::vector<std::function<double()>> samples;
  for (const unsigned stride : kStrides) {
    const auto launch = [&gpu, &out, stride, blocks] {
      check(accessing::launch_banks(out.data(), stride, kRounds, blocks, gpu.native));
    };
    check(cudaMemsetAsync(out.data(), 0xA5, out.bytes(), gpu.native));
    launch();
    gpu.synchronize();
    const auto sums = out.read();
    for (std::size_t thread = 0; thread < sums.size(); ++thread) {
      unsigned expected = 0;
      for (unsigned at = 0; at < accessing::kReads; ++at)
        expected += accessing::shared_word(static_cast<unsigned>(thread) % kWarp * stride + at);
      if (sums[thread] != expected * kRounds)
        throw attacca::Error(fmt::format("reads of shared memory with stride {} added up to {}",
                                         stride, sums[thread]));
    }
    samples.emplace_back([&gpu, launch] { return gpu.device_microseconds(launch); });
  }
  const auto times = run.interleave("banks", 21, samples);
  const double accesses_per_sm =
      kRounds * accessing::kReads * kBlocksPerSm * accessing::kThreads / kWarp;
  double slowest = 0;
  for (std::size_t at = 0; at < std::size(kStrides); ++at) {
    const unsigned conflicts = attacca::device::bank_conflicts(
        kWarp, sizeof(unsigned),
        [&](unsigned lane) { return lane * kStrides[at] * sizeof(unsigned); });
    if (conflicts == kWarp - 1) slowest = times[at].median / times.front().median;
    run.add(Row{.name = "read of shared memory",
                .params = {{"stride", kStrides[at]}, {"conflicts", conflicts}},
                .value = scaled(times[at], 1000 / accesses_per_sm),
                .unit = "ns/warp",
                .baseline = scaled(times.front(), 1000 / accesses_per_sm).median});
  }
  run.add(
      Finding{"Bank conflicts divide the bandwidth of shared memory by the number of separate "
              "requests: 32 where all lanes hit one bank.",
              kGuide, fmt::format("all lanes in one bank took {:.1f} times as long", slowest),
              slowest >= 28   ? Verdict::held
              : slowest >= 16 ? Verdict::partly
                              : Verdict::failed});
}

void access_on_gpu(Run& run) {
  Gpu gpu(run.device);
  {
    Copies copies(gpu);
    const double floor = measure_widths(run, copies);
    measure_strides(run, copies, floor);
    measure_offsets(run, copies, floor);
    measure_transposes(run, copies, floor);
  }
  measure_banks(run, gpu);
  run.note(
      "GB/s count the useful bytes, read and written; the floor is the fastest plain copy. "
      "With a stride, the baseline is what the sectors touched would allow.");
}
#endif

void access_pattern(Run& run) {
#if ATTACCA_WITH_CUDA
  if (run.device.is_cuda()) return access_on_gpu(run);
#endif
  access_on_host(run);
}

const Registered registered{{"access",
                             "what do stride, alignment, width and banks cost, against the sectors "
                             "and lines they touch?",
                             Needs::either, access_pattern}};

}  // namespace

}  // namespace bench
