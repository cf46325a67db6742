// report.cpp: computes percentiles, throughput and goodput, and prints them.
#include "serve/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace bench::serve {

using nlohmann::ordered_json;

namespace {

constexpr double kLateMs = 10;  // above it the figures say more about this machine than the server

double in_ms(double seconds) { return seconds * 1e3; }

/// Time per output token; none for a single token.
std::optional<double> tpot_of(const Record& record) {
  const std::uint64_t tokens = record.output_tokens();
  if (record.texts.size() < 2 || tokens < 2) return {};
  return in_ms(record.texts.back() - record.texts.front()) / static_cast<double>(tokens - 1);
}

std::optional<double> ttft_of(const Record& record) {
  if (record.texts.empty()) return {};
  return in_ms(record.texts.front() - record.due);
}

bool is_good(const Record& record, const Goals& goals) {
  if (!record.is_complete()) return false;
  const std::optional<double> ttft = ttft_of(record);
  const std::optional<double> tpot = tpot_of(record);
  return (!goals.ttft || (ttft && *ttft <= *goals.ttft)) &&
         (!goals.tpot || !tpot || *tpot <= *goals.tpot);
}

std::vector<Failure> failures_of(const std::vector<Record>& records) {
  std::vector<Failure> failures;
  for (const Record& record : records) {
    if (record.is_complete()) continue;
    auto found = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
      return failure.reason == record.failure;
    });
    if (found == failures.end())
      found = failures.insert(failures.end(), {record.failure, 0, record.detail});
    ++found->count;
  }
  std::stable_sort(failures.begin(), failures.end(),
                   [](const Failure& a, const Failure& b) { return a.count > b.count; });
  return failures;
}

double per_second(double count, const Figures& figures) {
  return figures.seconds > 0 ? count / figures.seconds : 0;
}
double per_second(std::uint64_t count, const Figures& figures) {
  return per_second(static_cast<double>(count), figures);
}

/// Three or four significant digits.
std::string number(double value) {
  return fmt::format("{:.{}f}", value, value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

double mean(std::uint64_t sum, std::size_t count) {
  return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
}

struct Lines {
  std::string text = {};
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  }
};

void add_latencies(Lines& lines, const Figures& figures) {
  constexpr auto kLine = "{:<6}{:>10}{:>10}{:>10}{:>10}";
  lines.add(kLine, "ms", "mean", "p50", "p90", "p99");
  for (const auto& [name, spread] : {std::pair{"TTFT", figures.ttft},
                                     {"TPOT", figures.tpot},
                                     {"ITL", figures.itl},
                                     {"E2E", figures.e2e}})
    if (spread.count > 0)
      lines.add(kLine, name, number(spread.mean), number(spread.p50), number(spread.p90),
                number(spread.p99));
}

std::string goals_in_words(const Goals& goals) {
  std::string text;
  if (goals.ttft) text += fmt::format("TTFT <= {:g} ms", *goals.ttft);
  if (goals.ttft && goals.tpot) text += " and ";
  if (goals.tpot) text += fmt::format("TPOT <= {:g} ms", *goals.tpot);
  return text;
}

void add_throughput(Lines& lines, const Goals& goals, const Figures& figures) {
  lines.add("requests  {} complete in {} s: {}/s", figures.complete, number(figures.seconds),
            number(per_second(figures.complete, figures)));
  if (figures.complete == 0) return;
  if (figures.prompt_tokens > 0)
    lines.add("prompts   {} tokens each, {:.0f} % of them cached",
              number(mean(figures.prompt_tokens, figures.complete - figures.without_usage)),
              100.0 * static_cast<double>(figures.cached_tokens) /
                  static_cast<double>(figures.prompt_tokens));
  lines.add("outputs   {} tokens each: {} tokens/s",
            number(mean(figures.output_tokens, figures.complete)),
            number(per_second(figures.output_tokens, figures)));
  if (goals.are_set())
    lines.add("goodput   {} requests/s with {}: {} of {}",
              number(per_second(figures.good, figures)), goals_in_words(goals), figures.good,
              figures.complete);
}

void add_remarks(Lines& lines, const Setup& setup, const Figures& figures) {
  for (const Failure& failure : figures.failures)
    lines.add("failed    {}: {}{}{}", failure.count, failure.reason,
              failure.detail.empty() ? "" : ": ", failure.detail);
  if (!setup.words.is_measured)
    lines.add(
        "note      the server's /tokenize did not answer; a word of a prompt was taken for a "
        "token");
  if (figures.without_usage > 0)
    lines.add("note      {} replies had no usage; their tokens are pieces of text",
              figures.without_usage);
  if (figures.late.p99 > kLateMs)
    lines.add(
        "note      one request in 100 was sent {} ms late or more; this machine is too slow "
        "for the load",
        number(figures.late.p99));
}

const char* name_of(Arrival arrival) {
  constexpr const char* kNames[] = {"poisson", "constant", "burst"};
  return kNames[static_cast<std::size_t>(arrival)];
}

const char* name_of(Endpoint endpoint) {
  return endpoint == Endpoint::chat ? "chat" : "completions";
}

ordered_json json_of(const Spread& spread) {
  return {{"count", spread.count},
          {"mean", spread.mean},
          {"p50", spread.p50},
          {"p90", spread.p90},
          {"p99", spread.p99}};
}

ordered_json json_of(const Record& record) {
  ordered_json line{{"due", record.due},
                    {"sent", record.sent},
                    {"first", nullptr},
                    {"end", record.end},
                    {"texts", record.texts.size()}};
  if (!record.texts.empty()) line["first"] = record.texts.front();
  if (record.usage) {
    line["prompt_tokens"] = record.usage->prompt_tokens;
    line["cached_tokens"] = record.usage->cached_tokens;
    line["output_tokens"] = record.usage->output_tokens;
  }
  if (!record.is_complete()) line["failure"] = record.failure;
  return line;
}

ordered_json json_of(const LoadOptions& load) {
  ordered_json line;
  if (!load.trace.empty()) {
    line["trace_requests"] = load.trace.size();
  } else if (load.rate) {
    line["rate"] = *load.rate;
    line["arrival"] = name_of(load.arrival);
  } else {
    line["concurrency"] = load.concurrency;
  }
  if (load.requests) line["requests"] = *load.requests;
  if (load.seconds) line["seconds"] = *load.seconds;
  if (load.trace.empty()) {
    line["prompt_tokens"] = load.prompt.text();
    line["output_tokens"] = load.output.text();
  }
  line["seed"] = load.seed;
  return line;
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, samples.size() - 1);
    return std::lerp(samples[below], samples[above], place - static_cast<double>(below));
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {samples.size(), sum / static_cast<double>(samples.size()), at(0.5), at(0.9), at(0.99)};
}

Figures figures_of(const std::vector<Record>& records, const Goals& goals) {
  Figures figures;
  figures.failures = failures_of(records);
  std::vector<double> ttft, tpot, itl, e2e, late;
  for (const Record& record : records) {
    figures.seconds = std::max(figures.seconds, record.end);
    late.push_back(in_ms(record.sent - record.due));
    if (!record.is_complete()) continue;
    ++figures.complete;
    figures.good += is_good(record, goals);
    figures.output_tokens += record.output_tokens();
    figures.without_usage += !record.usage;
    if (record.usage) {
      figures.prompt_tokens += record.usage->prompt_tokens;
      figures.cached_tokens += record.usage->cached_tokens;
    }
    if (const auto value = ttft_of(record)) ttft.push_back(*value);
    if (const auto value = tpot_of(record)) tpot.push_back(*value);
    for (std::size_t at = 1; at < record.texts.size(); ++at)
      itl.push_back(in_ms(record.texts[at] - record.texts[at - 1]));
    e2e.push_back(in_ms(record.end - record.due));
  }
  figures.ttft = spread_of(std::move(ttft));
  figures.tpot = spread_of(std::move(tpot));
  figures.itl = spread_of(std::move(itl));
  figures.e2e = spread_of(std::move(e2e));
  figures.late = spread_of(std::move(late));
  return figures;
}

std::string load_in_words(const Setup& setup) {
  const LoadOptions& load = setup.load;
  std::string text = load.requests ? fmt::format("{} requests", *load.requests) : "requests";
  if (!load.trace.empty())
    text = fmt::format("a trace of {} requests", load.trace.size());
  else if (load.rate)
    text += fmt::format(" at {:g} a second ({})", *load.rate, name_of(load.arrival));
  else
    text += fmt::format(", {} at once", load.concurrency);
  if (load.seconds) text += fmt::format(", begun within {:g} s", *load.seconds);
  if (load.trace.empty())
    text += fmt::format(", prompts of {} tokens, outputs of {}", load.prompt.text(),
                        load.output.text());
  if (setup.shared_prefix > 0) text += fmt::format(", {} tokens shared", setup.shared_prefix);
  if (setup.target.ignores_eos) text += ", end tokens ignored";
  if (setup.hog > 0) text += fmt::format(", {} cores hogged", setup.hog);
  return fmt::format("{}, seed {}", text, load.seed);
}

std::string table_of(const Setup& setup, const Figures& figures) {
  Lines lines;
  lines.add("serve: {}, model {}, {}", setup.target.url.text(), setup.target.model,
            name_of(setup.target.endpoint));
  lines.add("from {}, commit {}, {}", setup.machine, setup.commit, setup.date);
  lines.add("{}", load_in_words(setup));
  lines.add("");
  if (figures.complete > 0) {
    add_latencies(lines, figures);
    lines.add("");
  }
  add_throughput(lines, setup.goals, figures);
  add_remarks(lines, setup, figures);
  return lines.text;
}

ordered_json json_of(const Setup& setup, const Figures& figures,
                     const std::vector<Record>& records) {
  ordered_json result{{"bench", "serve"},
                      {"commit", setup.commit},
                      {"date", setup.date},
                      {"machine", setup.machine},
                      {"url", setup.target.url.text()},
                      {"model", setup.target.model},
                      {"endpoint", name_of(setup.target.endpoint)},
                      {"load", json_of(setup.load)},
                      {"shared_prefix", setup.shared_prefix},
                      {"ignore_eos", setup.target.ignores_eos},
                      {"hog", setup.hog}};
  if (setup.words.is_measured)
    result["tokens_of_words"] = {{"per_word", setup.words.tokens.per_word},
                                 {"around", setup.words.tokens.around}};
  result["seconds"] = figures.seconds;
  result["complete"] = figures.complete;
  result["failed"] = records.size() - figures.complete;
  result["failures"] = ordered_json::array();
  for (const Failure& failure : figures.failures)
    result["failures"].push_back(
        {{"reason", failure.reason}, {"count", failure.count}, {"first", failure.detail}});
  result["requests_per_second"] = per_second(figures.complete, figures);
  result["prompt_tokens"] = figures.prompt_tokens;
  result["cached_tokens"] = figures.cached_tokens;
  result["output_tokens"] = figures.output_tokens;
  result["output_tokens_per_second"] = per_second(figures.output_tokens, figures);
  result["without_usage"] = figures.without_usage;
  for (const auto& [name, spread] : {std::pair{"ttft_ms", figures.ttft},
                                     {"tpot_ms", figures.tpot},
                                     {"itl_ms", figures.itl},
                                     {"e2e_ms", figures.e2e},
                                     {"late_ms", figures.late}})
    result[name] = json_of(spread);
  if (setup.goals.are_set()) {
    ordered_json goodput;
    if (setup.goals.ttft) goodput["target_ttft_ms"] = *setup.goals.ttft;
    if (setup.goals.tpot) goodput["target_tpot_ms"] = *setup.goals.tpot;
    goodput["requests"] = figures.good;
    goodput["requests_per_second"] = per_second(figures.good, figures);
    result["goodput"] = goodput;
  }
  result["requests"] = ordered_json::array();
  for (const Record& record : records) result["requests"].push_back(json_of(record));
  return result;
}

}  // namespace bench::serve
