// report.hpp: the figures of a load, as a table for people and as JSON for scripts. The picture is
// in timeline.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "serve/completion.hpp"
#include "serve/load.hpp"
#include "serve/target.hpp"

namespace bench::serve {

/// All are 0 where there is no sample.
struct Spread {
  std::size_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};
Spread spread_of(std::vector<double> samples);

/// A request is good if it is complete and meets both, in milliseconds.
struct Goals {
  std::optional<double> ttft = {};
  std::optional<double> tpot = {};
  bool are_set() const { return ttft || tpot; }
};

struct Failure {
  std::string reason;
  std::size_t count = 0;
  std::string detail;  // of the first of them
};

/// Latencies are in milliseconds, and only those of complete requests.
struct Figures {
  double seconds = 0;  // from the start to the last end
  std::size_t complete = 0;
  std::vector<Failure> failures = {};  // the most frequent first
  std::uint64_t prompt_tokens = 0;     // of complete requests, as are the next ones
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::size_t without_usage = 0;  // requests whose tokens are pieces of text
  Spread ttft = {};               // from the request to its first text
  Spread tpot = {};               // from the first text to the last, by the tokens after the first
  Spread itl = {};                // between two texts
  Spread e2e = {};                // from the request to its end
  Spread late = {};               // from when a request was due until it was sent; all requests
  std::size_t good = 0;           // that meet the goals
};
Figures figures_of(const std::vector<Record>& records, const Goals& goals);

/// What was measured, and where.
struct Setup {
  Target target;
  LoadOptions load;
  unsigned shared_prefix = 0;
  unsigned hog = 0;
  Measured words = {};
  Goals goals = {};
  std::string machine = {};  // that the load comes from
  std::string commit = {};
  std::string date = {};
};

std::string table_of(const Setup& setup, const Figures& figures);
nlohmann::ordered_json json_of(const Setup& setup, const Figures& figures,
                               const std::vector<Record>& records);

/// "64 requests at 8 a second (poisson), prompts of 128 tokens, outputs of 64".
std::string load_in_words(const Setup& setup);

}  // namespace bench::serve
