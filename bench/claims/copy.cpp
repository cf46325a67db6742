// copy.cpp: ways to bring an array into shared memory (through registers, with cp.async, with TMA
// bulk copies) by the number of buffers, against a kernel that reads without shared memory.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "claims/copy.hpp"
#include "raw.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA
using copying::Variant;
using copying::Way;

constexpr unsigned kBlocksForFloor = 8;  // per SM: as many threads as fit

/// How much of an SM a block may take. It decides how much latency its stages must hide.
struct Setting {
  unsigned chunk_bytes;
  unsigned blocks_per_sm;
  std::string text() const {
    return fmt::format("{} KiB chunks, {} per SM", chunk_bytes / 1024, blocks_per_sm);
  }
};
constexpr Setting kSettings[] = {{4096, 1}, {16384, 1}, {4096, 4}};

const char* name_of(Way way) {
  switch (way) {
    case Way::registers:
      return "registers";
    case Way::registers_ahead:
      return "registers, loaded ahead";
    case Way::asynchronous:
      return "cp.async";
    case Way::bulk:
      return "bulk (TMA)";
  }
  return "";
}

/// The array, and the sum that every kernel must find in it.
class Words {
 public:
  Words(Gpu& gpu, std::uint64_t count)
      : gpu_(gpu), words_(gpu.device, count), sum_(gpu.device, std::vector<unsigned>{0}) {
    check(copying::launch_fill(words_.data(), count, gpu.native));
    for (std::uint64_t place = 0; place < count; ++place)
      expected_ += copying::digest(copying::word_at(place));
    gpu.synchronize();
  }
  double gigabytes() const { return static_cast<double>(words_.bytes()) * 1e-9; }

  /// GB/s of one launch.
  template <class Launch>
  double rate(Launch&& launch) {
    ++launches_;
    const double us = gpu_.device_microseconds(
        [&] { check(launch(words_.data(), words_.size(), sum_.data(), gpu_.native)); });
    return gigabytes() * 1e6 / us;
  }
  void expect_read() const {
    const unsigned found = sum_.read().front();
    if (found != expected_ * launches_)
      throw attacca::Error(fmt::format("{} passes over the array added up to {} instead of {}",
                                       launches_, found, expected_ * launches_));
  }

 private:
  Gpu& gpu_;
  attacca::Buffer<unsigned> words_;
  attacca::Buffer<unsigned> sum_;
  unsigned expected_ = 0;
  unsigned launches_ = 0;
};

/// The measurements of one setting: GB/s by way and stages.
using Rates = std::map<Way, std::map<unsigned, double>>;

double best(const std::map<unsigned, double>& by_stages) {
  double most = 0;
  for (const auto& [stages, rate] : by_stages) most = std::max(most, rate);
  return most;
}

/// The fewest stages within 3 % of the best.
unsigned enough_stages(const std::map<unsigned, double>& by_stages) {
  for (const auto& [stages, rate] : by_stages)
    if (rate >= 0.97 * best(by_stages)) return stages;
  return 0;
}

Verdict verdict_of(std::size_t held, std::size_t of) {
  return held == of ? Verdict::held : held > 0 ? Verdict::partly : Verdict::failed;
}

/// Compares each setting's figure `of(rates)` with the claim.
template <class Of, class IsRight>
void judge(Run& run, const std::vector<Rates>& settings, std::string claim, std::string source,
           const std::string& what, Of of, IsRight is_right) {
  std::string measured = what + ":";
  std::size_t held = 0;
  for (std::size_t at = 0; at < settings.size(); ++at) {
    const double figure = of(settings[at]);
    held += is_right(figure);
    measured += fmt::format("{} {:.3g} ({})", at == 0 ? "" : ",", figure, kSettings[at].text());
  }
  run.add(Finding{std::move(claim), std::move(source), std::move(measured),
                  verdict_of(held, settings.size())});
}

void judge_all(Run& run, const std::vector<Rates>& settings) {
  judge(
      run, settings,
      "Asynchronous copies are faster than copies through registers, without any pipeline.",
      "CUDA C++ Best Practices Guide, Asynchronous Copy from Global Memory to Shared Memory, "
      "https://docs.nvidia.com/cuda/pdf/CUDA_C_Best_Practices_Guide.pdf",
      "cp.async with one buffer over registers",
      [](const Rates& r) { return r.at(Way::asynchronous).at(1) / r.at(Way::registers).at(1); },
      [](double ratio) { return ratio > 1.02; });
  judge(
      run, settings, "Async copy used properly makes memory-bound kernels 30 to 50 % faster.",
      "RightNow AI's guide, https://www.rightnowai.co/guides/cuda-operations/async-copy",
      "the best cp.async over registers",
      [](const Rates& r) { return best(r.at(Way::asynchronous)) / r.at(Way::registers).at(1); },
      [](double ratio) { return ratio >= 1.3; });
  judge(
      run, settings, "A pipeline wants three to five tiles in flight at once.",
      "TMA & cp.async, "
      "https://jvoltci.github.io/mosaic/ml-execution/tensors-in-memory/tma-async-copy",
      "fewest stages within 3 % of the best",
      [](const Rates& r) { return static_cast<double>(enough_stages(r.at(Way::asynchronous))); },
      [](double stages) { return stages >= 3 && stages <= 6; });
  judge(
      run, settings, "Handing bulk copies to the TMA unit improves the effective bandwidth.",
      "Tensor Memory Accelerator, https://the-dsvolk.github.io/ai-perf/ai-infra/TMA.html",
      "the best bulk copy over the best cp.async",
      [](const Rates& r) { return best(r.at(Way::bulk)) / best(r.at(Way::asynchronous)); },
      [](double ratio) { return ratio > 1.02; });
  judge(
      run, settings, "What a load into registers cannot do, overlap with work, cp.async can.",
      "Controlling Data Movement to Boost Performance on the NVIDIA Ampere Architecture, "
      "https://developer.nvidia.com/blog/"
      "controlling-data-movement-to-boost-performance-on-ampere-architecture/",
      "cp.async with two buffers over registers loaded one chunk ahead",
      [](const Rates& r) {
        return r.at(Way::asynchronous).at(2) / r.at(Way::registers_ahead).at(2);
      },
      [](double ratio) { return ratio > 1.02; });
}

void copy(Run& run) {
  Gpu gpu(run.device);
  int sms = 0;
  int index = 0;
  check(cudaGetDevice(&index));
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, index));
  Words words(gpu, run.is_quick() ? std::uint64_t{1} << 26 : std::uint64_t{1} << 28);

  struct Measured {
    const Variant* variant;
    std::size_t setting;
  };
  std::vector<Measured> measured;
  std::vector<std::function<double()>> samples;
  samples.emplace_back([&] {
    return words.rate([&](const unsigned* in, std::uint64_t count, unsigned* sum, cudaStream_t s) {
      return copying::launch_direct(in, count, sum, static_cast<unsigned>(sms) * kBlocksForFloor,
                                    s);
    });
  });
  for (std::size_t at = 0; at < std::size(kSettings); ++at) {
    for (const Variant& variant : copying::variants()) {
      if (variant.chunk_bytes != kSettings[at].chunk_bytes) continue;
      int fitting = 0;
      check(copying::prepare(variant, &fitting));
      if (static_cast<unsigned>(fitting) < kSettings[at].blocks_per_sm)
        throw attacca::Error(fmt::format("{} with {} stages: only {} blocks fit an SM",
                                         name_of(variant.way), variant.stages, fitting));
      measured.push_back({&variant, at});
      const unsigned blocks = static_cast<unsigned>(sms) * kSettings[at].blocks_per_sm;
      samples.emplace_back([&, blocks] {
        return words.rate(
            [&](const unsigned* in, std::uint64_t count, unsigned* sum, cudaStream_t s) {
              return copying::launch(variant, in, count, sum, blocks, s);
            });
      });
    }
  }
  const auto rates = run.interleave("all ways", 31, samples);
  words.expect_read();

  const double floor = rates.front().median;
  run.add(Row{.name = "read without shared memory",
              .params = {{"per SM", kBlocksForFloor}},
              .value = rates.front(),
              .unit = "GB/s",
              .floor = floor,
              .is_rate = true});
  std::vector<Rates> settings(std::size(kSettings));
  for (std::size_t at = 0; at < measured.size(); ++at) {
    const auto& [variant, place] = measured[at];
    const Setting& setting = kSettings[place];
    Rates& here = settings[place];
    here[variant->way][variant->stages] = rates[at + 1].median;
    const unsigned ahead = std::max(1u, variant->stages - 1);  // the last buffer is in use
    run.add(Row{.name = fmt::format("{}, {}", name_of(variant->way), setting.text()),
                .params = {{"stages", variant->stages},
                           {"KiB ahead per SM",
                            setting.blocks_per_sm * ahead * variant->chunk_bytes / 1024}},
                .value = rates[at + 1],
                .unit = "GB/s",
                .baseline = here.at(Way::registers).at(1),
                .floor = floor,
                .is_rate = true});
  }
  std::vector<std::string> curves;
  for (const Setting& setting : kSettings)
    for (const Way way : {Way::asynchronous, Way::bulk})
      curves.push_back(fmt::format("{}, {}", name_of(way), setting.text()));
  run.add(Plot{.title = "Streaming through shared memory",
               .x = "stages",
               .x_label = "buffers",
               .y_label = "fraction of a plain read",
               .is_log_x = false,
               .rows = curves,
               .value = Plot::Value::fraction});
  run.note(
      "The baseline is the copy through registers in the same setting, the floor a kernel "
      "that reads the array without shared memory.");
  judge_all(run, settings);
}
#else
constexpr auto copy = kNoRun;
#endif

const Registered registered{
    {"copy", "which way into shared memory is fastest, and with how many buffers?", Needs::cuda,
     copy, "the host has caches and no shared memory to copy into"}};

}  // namespace

}  // namespace bench
