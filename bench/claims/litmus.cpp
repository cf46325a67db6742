// litmus.cpp: how often a GPU shows outcomes that contradict program order, for each way to pass a
// value between threads, and whether outcomes appear that its memory model forbids.
#include "litmus.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <array>

#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include "raw.hpp"
#endif

namespace bench {

namespace {

using litmus::Form;
using litmus::Pattern;
using litmus::Place;

constexpr double kPer = 1e8;  // counts are of a hundred million tries
constexpr std::uint32_t kSeed = 20260801;

struct Variant {
  Pattern pattern;
  Form form;
  Place place = Place::two_blocks;
};

const char* name_of(Pattern pattern) {
  switch (pattern) {
    case Pattern::message_passing:
      return "message passing";
    case Pattern::store_buffering:
      return "store buffering";
    case Pattern::load_buffering:
      return "load buffering";
  }
  return "";
}
const char* name_of(Form form) {
  switch (form) {
    case Form::plain:
      return "plain";
    case Form::volatile_access:
      return "volatile";
    case Form::relaxed:
      return "relaxed";
    case Form::seq_cst:
      return "seq_cst";
    case Form::relaxed_flag:
      return "plain data, relaxed flag";
    case Form::release_acquire:
      return "release/acquire";
    case Form::fences:
      return "relaxed and fences";
    case Form::block_scope:
      return "release/acquire, block scope";
  }
  return "";
}

/// All variants: each way in each pattern, and again between threads of one block where that makes
/// a difference. On the host plain accesses would be undefined, and there is only one scope.
std::vector<Variant> variants(bool is_cuda) {
  std::vector<Variant> all;
  for (const Pattern pattern :
       {Pattern::message_passing, Pattern::store_buffering, Pattern::load_buffering}) {
    if (is_cuda) {
      all.push_back({pattern, Form::plain});
      all.push_back({pattern, Form::volatile_access});
      if (pattern == Pattern::message_passing) all.push_back({pattern, Form::relaxed_flag});
      all.push_back({pattern, Form::block_scope});
      all.push_back({pattern, Form::relaxed, Place::one_block});
      all.push_back({pattern, Form::block_scope, Place::one_block});
    }
    for (const Form form : {Form::relaxed, Form::release_acquire, Form::fences, Form::seq_cst})
      all.push_back({pattern, form});
  }
  return all;
}

struct Result {
  Variant of;
  std::array<std::uint64_t, 4> outcomes{};
  std::vector<double> samples{};  // weak outcomes per kPer tries of each launch

  std::uint64_t tries() const { return outcomes[0] + outcomes[1] + outcomes[2] + outcomes[3]; }
  double share(std::uint64_t count) const {
    return static_cast<double>(count) / static_cast<double>(tries());
  }
  double weak() const { return kPer * share(outcomes[litmus::weak_outcome(of.pattern)]); }
  /// In message passing: how often the reader saw the flag.
  double seen() const { return share(outcomes[2] + outcomes[3]); }
  bool is_forbidden() const { return litmus::is_forbidden(of.pattern, of.form, of.place); }
};

/// The number of launches, of rounds in each, and of pairs of threads.
struct Extent {
  std::uint32_t launches;
  std::uint32_t instances;
  std::uint32_t rounds;
};

/// Runs a variant. `launch` starts it and waits for it.
template <class Launch>
Result play(const attacca::Device& device, const Variant& variant, const Extent& extent,
            Launch launch) {
  attacca::Buffer<std::byte> lines(device, litmus::line_bytes(extent.instances));
  attacca::Buffer<litmus::Counter> histogram(device, std::vector<litmus::Counter>(4));
  const attacca::Stream stream(device);
  Result result{variant};
  for (std::uint32_t at = 0; at < extent.launches; ++at) {
    stream.fill(lines.data(), 0, lines.bytes());
    stream.synchronize();
    launch(litmus::Args{lines.data(), histogram.data(), extent.instances, extent.rounds,
                        kSeed * (at + 1), variant.place});
    const Result before = result;
    const auto counters = histogram.read();
    for (std::size_t outcome = 0; outcome < 4; ++outcome)
      result.outcomes[outcome] = counters[outcome].load(attacca::device::relaxed);
    const std::size_t weak = litmus::weak_outcome(variant.pattern);
    result.samples.push_back(kPer *
                             static_cast<double>(result.outcomes[weak] - before.outcomes[weak]) /
                             static_cast<double>(result.tries() - before.tries()));
  }
  const std::uint64_t wanted = std::uint64_t{extent.launches} * extent.instances * extent.rounds;
  if (result.tries() != wanted)
    throw attacca::Error(fmt::format("{}, {}: {} of {} tries were made; is the device shared?",
                                     name_of(variant.pattern), name_of(variant.form),
                                     result.tries(), wanted));
  return result;
}

#if ATTACCA_WITH_CUDA
Result play_on_gpu(Gpu& gpu, const Variant& variant, bool is_quick) {
  const Extent extent{is_quick ? 2u : 8u, litmus::kInstances, is_quick ? 100u : 400u};
  return play(gpu.device, variant, extent, [&](litmus::Args args) {
    void* pointers[] = {&args};
    check(cudaLaunchKernel(litmus::kernel_of(variant.pattern, variant.form), dim3(litmus::kBlocks),
                           dim3(litmus::kThreads), pointers, 0, gpu.native));
    gpu.synchronize();
  });
}

const Result& find(const std::vector<Result>& results, Pattern pattern, Form form,
                   Place place = Place::two_blocks) {
  for (const Result& result : results)
    if (result.of.pattern == pattern && result.of.form == form && result.of.place == place)
      return result;
  throw attacca::Error("a variant was not run");
}

/// A claim that a form passes messages: it holds if the flag is seen, and with it the data.
Finding passes_messages(const Result& result, const char* claim, const char* source) {
  return {claim, source,
          fmt::format("the reader saw the flag in {:.1f} % of the tries, and then old data in "
                      "{:.0f} of 100 million",
                      100 * result.seen(), result.weak()),
          result.weak() == 0 && result.seen() > 0.01 ? Verdict::held : Verdict::failed};
}

void add_findings(Run& run, const std::vector<Result>& results) {
  const auto message = [&](Form form) -> const Result& {
    return find(results, Pattern::message_passing, form);
  };
  run.add(passes_messages(
      message(Form::plain), "Plain loads and stores of a flag work in practice.",
      "folklore that J. Alglave et al., GPU Concurrency: Weak Behaviours and Programming "
      "Assumptions, ASPLOS 2015, tested: http://multicore.doc.ic.ac.uk/gpu-litmus/"));
  run.add(passes_messages(message(Form::volatile_access),
                          "A volatile flag needs no fence: volatile accesses come in order.",
                          "asked and assumed in https://github.com/vllm-project/vllm/issues/8404"));
  run.add(passes_messages(
      message(Form::relaxed_flag),
      "For speed, a relaxed flag is enough; acquire is for general use.",
      "a reply in https://github.com/NVIDIA/cutlass/issues/3117, there for loads that pass by L1"));
  run.add(passes_messages(message(Form::block_scope),
                          "A release at block scope is enough between blocks, for L1 writes "
                          "through.",
                          "repeated in tutorials; no single source found"));

  double forbidden = 0;
  std::uint64_t tries = 0;
  for (const Result& result : results)
    if (result.is_forbidden()) forbidden += result.weak(), tries += result.tries();
  const double buffered = find(results, Pattern::store_buffering, Form::release_acquire).weak();
  run.add(Finding{
      "Release and acquire at a scope that covers both sides rule out the weak outcomes of message "
      "passing and load buffering; those of store buffering only sequential consistency does.",
      "D. Lustig et al., A Formal Analysis of the NVIDIA PTX Memory Consistency Model, ASPLOS 2019",
      fmt::format("{:.0f} forbidden outcomes in {:.0f} million tries of the correct forms; store "
                  "buffering with release/acquire showed its weak outcome in {:.0f} of 100 million",
                  forbidden, static_cast<double>(tries) / 1e6, buffered),
      forbidden > 0  ? Verdict::failed
      : buffered > 0 ? Verdict::held
                     : Verdict::partly});
}
#endif

Result play_on_host(const attacca::Device& device, const Variant& variant, bool is_quick) {
  const Extent extent{is_quick ? 2u : 5u, 1, is_quick ? 10'000u : 40'000u};
  return play(device, variant, extent, [&](const litmus::Args& args) {
    litmus::with(variant.pattern, variant.form, [&](auto pattern, auto form) {
      litmus::play_on_threads<pattern.value, form.value>(args);
    });
  });
}

void add_row(Run& run, const Result& result) {
  Row row{name_of(result.of.pattern),
          {{"form", name_of(result.of.form)},
           {"model", result.is_forbidden() ? "forbidden" : "allowed"},
           {"million tries", static_cast<double>(result.tries()) / 1e6}},
          summarize(result.samples),
          "per 100M"};
  if (run.device.is_cuda())
    row.params["threads"] = result.of.place == Place::one_block ? "of one block" : "of two blocks";
  row.value.median = result.weak();
  if (result.is_forbidden()) row.limit = 0;
  row.must_always_hold = true;
  run.add(std::move(row));
}

void measure_litmus(Run& run) {
  std::vector<Result> results;
#if ATTACCA_WITH_CUDA
  std::optional<Gpu> gpu;
  if (run.device.is_cuda()) gpu.emplace(run.device);
#endif
  for (const Variant& variant : variants(run.device.is_cuda())) {
#if ATTACCA_WITH_CUDA
    results.push_back(gpu ? play_on_gpu(*gpu, variant, run.is_quick())
                          : play_on_host(run.device, variant, run.is_quick()));
#else
    results.push_back(play_on_host(run.device, variant, run.is_quick()));
#endif
    add_row(run, results.back());
  }
#if ATTACCA_WITH_CUDA
  if (gpu) add_findings(run, results);
#endif
  run.note(
      "the first figure is the count over all tries, in place of a median; p10 and p90 are of the "
      "launches. Weak are r1=1, r2=0 in message passing, both 0 in store buffering, both 1 in load "
      "buffering");
}

const Registered registered{{"litmus",
                             "which outcomes that contradict the order of the code does the device "
                             "show, and never those that its memory model forbids?",
                             Needs::either, measure_litmus}};

}  // namespace

}  // namespace bench
