// traffic.hpp: the steps that an engine ran, counted by kind and size, with the times they took.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace attacca::planner {

/// A decode step computes one new token of each of its sequences; a mixed step also reads prompts.
enum class Kind : std::uint8_t { decode, mixed };

struct Step {
  Kind kind = Kind::decode;
  std::uint32_t tokens = 0;
  std::uint32_t size = 0;   // tokens of its graph; 0: it had none
  double microseconds = 0;  // 0: not known
  std::uint64_t count = 1;  // steps like this one
};

/// The steps of one kind.
struct Steps {
  /// Samples of one size that are kept: enough for a median, and bounded for any log.
  static constexpr std::size_t kMostSamples = 4096;

  std::map<std::uint32_t, std::uint64_t> counts;  // by tokens
  /// Microseconds, by tokens and by the graph's size, which is 0 for steps without a graph.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<float>> times;

  std::uint64_t total() const;
  std::uint32_t largest() const { return counts.empty() ? 0 : counts.rbegin()->first; }
};

struct Traffic {
  Steps decode;
  Steps mixed;

  Steps& of(Kind kind) { return kind == Kind::decode ? decode : mixed; }
  const Steps& of(Kind kind) const { return kind == Kind::decode ? decode : mixed; }
  void add(const Step& step);
  std::uint64_t total() const { return decode.total() + mixed.total(); }
};

}  // namespace attacca::planner
