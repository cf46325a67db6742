// load.hpp: which requests are sent, and when: lengths drawn from distributions, arrivals at a
// rate, or a trace of recorded requests. The same seed gives the same requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace bench::serve {

/// The standard's distributions differ between libraries; these do not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  double uniform();  // from 0 to below 1
  std::uint64_t below(std::uint64_t end) { return bits_() % end; }
  double exponential(double rate);
  double normal(double mean, double deviation);

 private:
  std::mt19937_64 bits_;
};

/// A distribution of numbers of tokens, from 1 up.
struct Lengths {
  static constexpr unsigned kMost = 10'000'000;
  enum class Kind { uniform, normal };
  Kind kind = Kind::uniform;
  double first = 1;   // the least, or the mean
  double second = 1;  // the most, or the standard deviation

  unsigned draw(Random& random) const;
  /// The longest that is drawn. A normal distribution has none.
  std::optional<unsigned> longest() const;
  std::string text() const;  // as `parse_lengths` takes it
};

/// Reads "128", "64-256" or "normal:128,32". Throws BadArgument.
Lengths parse_lengths(std::string_view text);

enum class Arrival {
  poisson,   // at random, independent of each other
  constant,  // at equal distances
  burst,     // all requests of a second at its beginning
};

/// A request to send. Times are in seconds from the start.
struct Planned {
  std::size_t index = 0;
  double at = 0;
  unsigned prompt_tokens = 0;
  unsigned output_tokens = 0;
};

/// Reads lines such as {"at": 0.5, "prompt_tokens": 128, "output_tokens": 16} and sorts them by
/// time. Empty lines are skipped. Throws BadArgument that names the line.
std::vector<Planned> read_trace(std::string_view text);

struct LoadOptions {
  std::optional<double> rate = {};  // requests a second; without it and a trace: `concurrency`
  Arrival arrival = Arrival::poisson;
  unsigned concurrency = 8;
  std::vector<Planned> trace = {};
  std::optional<std::uint64_t> requests = {};  // at most so many
  std::optional<double> seconds = {};          // none begins later
  Lengths prompt = {};
  Lengths output = {};
  std::uint64_t seed = 1;

  /// Requests begin when they are due, not when others have ended.
  bool is_open() const { return rate || !trace.empty(); }
};

/// The requests of a run, one after the other. Without a rate or a trace all are due at 0, and the
/// caller ends at `seconds`.
class RequestSource {
 public:
  explicit RequestSource(const LoadOptions& options);
  std::optional<Planned> next();

 private:
  double arrival_of(std::size_t index);

  const LoadOptions options_;
  Random arrivals_;
  Random lengths_;
  std::size_t index_ = 0;
  double last_at_ = 0;
};

}  // namespace bench::serve
