// loop.cpp: what the loop around the steps costs when the host runs it and when the device does:
// the gap between two steps by the device's clock, the time from token to token, calls of the CUDA
// driver, all with a quiet host and with a busy one; how soon an idle engine answers, and whether
// the device waits for a host that pauses.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <attacca/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "hogs.hpp"
#include "instruments/cupti.hpp"
#include "llm/engine_runs.hpp"
#include "llm/random_file.hpp"
#include "llm/synthetic_runs.hpp"

namespace bench {

namespace {

using namespace attacca::llm;
using attacca::device::Record;
using nlohmann::ordered_json;

constexpr double kMostGap = 12;                  // µs
constexpr double kMostIdle = 2;                  // percent
constexpr double kMostHogged = 1.05;             // of the quiet p99
constexpr double kLeastRate = 0.97;              // of the host's
constexpr double kMostAdmission = 60;            // µs over the step
constexpr double kMostPlan = 10;                 // µs
constexpr double kMostPaused = 5;                // times the median from token to token
constexpr std::chrono::milliseconds kSleep{20};  // of the thread that submits
constexpr unsigned kPausedBatch = 64;            // of the run in which the host pauses
constexpr int kBusyRuns = 3;                     // with a busy host
constexpr std::uint64_t kLargeModel = std::uint64_t{8} << 30;  // bytes; its steps take long
constexpr std::size_t kRecords = 1u << 16;

/// How long requests are, in tokens.
struct Lengths {
  unsigned prompt;
  unsigned output;
  unsigned few;  // of output, where figures do not get better with more
};

/// The median, p10 and p99; the last stands where other benchmarks have p90.
Summary quantiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.5), at(0.1), at(0.99)};
}

/// Steady decode steps, in microseconds.
struct Steps {
  std::vector<double> gaps;       // from the end of one to the begin of the next
  std::vector<double> intervals;  // from end to end
  std::vector<double> before_turns, turns, behind_turns;  // what gaps are made of
  std::vector<double> commits, plans;                     // the first are a part of the others
  double idle_percent = 0;
};

/// The steps of `size` tokens that follow another such step at once.
Steps steps_of(const std::vector<Record>& records, unsigned size) {
  const auto is = [&](const Record& record, StepMark what) {
    return record.what == static_cast<std::uint32_t>(what);
  };
  Steps steps;
  constexpr std::uint64_t kNever = 0;
  std::uint64_t begin = kNever, end = kNever, turn = kNever, turned = kNever, plan = kNever;
  const auto us = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / 1e3;
  };
  double gaps = 0, all = 0;
  std::vector<Record> sorted = records;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Record& a, const Record& b) { return a.at < b.at; });
  for (const Record& record : sorted) {
    const std::uint64_t at = record.at;
    const auto add_since = [&](std::uint64_t from, std::vector<double>& to) {
      if (end != kNever && from != kNever) to.push_back(us(from, at));
    };
    if (is(record, StepMark::step_begins)) {
      begin = record.value == size ? at : kNever;
      if (begin == kNever) end = kNever;
      add_since(turned, steps.behind_turns);
      turned = kNever;
    } else if (is(record, StepMark::step_ends) && begin != kNever) {
      if (end != kNever) {
        steps.gaps.push_back(us(end, begin));
        steps.intervals.push_back(us(end, at));
        gaps += us(end, begin);
        all += us(end, at);
      }
      end = at;
    } else if (is(record, StepMark::turn_begins)) {
      turn = at;
      add_since(end, steps.before_turns);
    } else if (is(record, StepMark::turn_ends)) {
      add_since(turn, steps.turns);
      turned = at;
    } else if (is(record, StepMark::plan_begins)) {
      plan = at;
    } else if (is(record, StepMark::plan_has_committed)) {
      add_since(plan, steps.commits);
    } else if (is(record, StepMark::plan_ends)) {
      add_since(plan, steps.plans);
    }
  }
  steps.idle_percent = all > 0 ? 100 * gaps / all : 0;
  return steps;
}

/// When the only step of a request was planned, began, ended and was committed; 0: not recorded.
struct FirstStep {
  std::uint64_t plan = 0, begin = 0, end = 0, news = 0;
};

/// The steps of requests that came to an idle engine, one after the other, and took one step each.
std::vector<FirstStep> first_steps(std::vector<Record> records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.at < b.at; });
  std::vector<FirstStep> steps;
  FirstStep next;
  for (const Record& record : records) {
    const auto what = static_cast<StepMark>(record.what);
    if (what == StepMark::plan_begins && next.plan == 0) next.plan = record.at;
    if (what == StepMark::step_begins) next.begin = record.at;
    if (what == StepMark::step_ends) {
      next.end = record.at;
      steps.push_back(std::exchange(next, {}));
    }
    if (what == StepMark::plan_has_committed && !steps.empty() && steps.back().news == 0) {
      steps.back().news = record.at;
      next = {};  // that plan was not the first of the next launch
    }
  }
  return steps;
}

/// Where the loop runs, and its form there.
struct LoopChoice {
  const char* name;
  Scheduler scheduler;
  ResidentLoop form;
};
constexpr LoopChoice kLoops[] = {
    {"host", Scheduler::host, ResidentLoop::self_relaunch},
    {"resident, while node", Scheduler::resident, ResidentLoop::while_node},
    {"resident, self-relaunch", Scheduler::resident, ResidentLoop::self_relaunch}};

/// First tokens of an idle engine, in microseconds.
struct FirstTokens {
  std::vector<double> over_step;  // from `submit`, less the step
  std::vector<double> to_step;    // of those: from the first plan to the step
  std::vector<double> to_news;    // of those: from the step to the end of the commit
};

/// One engine's figures.
struct Measured {
  Steps quiet, hogged;
  std::vector<double> host_intervals;  // what a reader on the host sees, quiet
  double tokens_per_second = 0;
  std::vector<double> hogged_rates;  // tokens per second, of one run after another
  std::optional<double> calls_per_token;
  FirstTokens first, first_after_sleep;
  std::optional<double> longest_us;  // from token to token, while the host paused
};

class LoopRun {
 public:
  explicit LoopRun(Run& run) : run_(run) {}

  /// One engine of each loop, with as many slots as the largest batch, runs all batches: to load a
  /// model and to build graphs takes longer than to run them.
  void measure(const ordered_json& params, const std::string& path,
               const std::vector<unsigned>& batches) {
    ModelRun& run = models_.emplace_back(ModelRun{params, path, batches, {}});
    for (const LoopChoice& choice : kLoops)
      with_engine(run, choice, [&](const Model& model, Engine& engine, const std::string& what) {
        std::vector<Measured>& measured = run.measured.emplace_back();
        for (const unsigned batch : batches)
          measured.push_back(
              measure_batch(model, engine, batch, fmt::format("{}, {} at once", what, batch)));
      });
  }

  /// With engines of its own, and behind all that is measured: once CUPTI has counted calls in a
  /// process, every graph that the device launches there starts 1.3 to 2 µs later.
  void count_calls() {
    if (!run_.device.is_cuda()) return;
    static bool has_counted = false;
    std::string why_not = "done in the run before, since which CUPTI makes gaps longer";
    if (has_counted || !attacca::instruments::start_call_counter(why_not))
      return run_.note(fmt::format("calls of the driver are not counted: {}", why_not));
    has_counted = true;
    for (ModelRun& run : models_)
      for (std::size_t loop = 0; loop < std::size(kLoops); ++loop)
        with_engine(run, kLoops[loop],
                    [&](const Model& model, Engine& engine, const std::string& what) {
                      run_.show_progress(what + ", counting calls", loop, std::size(kLoops));
                      for (std::size_t at = 0; at < run.batches.size(); ++at)
                        run.measured[loop][at].calls_per_token =
                            calls_per_token(model, engine, run.batches[at]);
                    });
  }

  void add_rows() {
    for (const ModelRun& run : models_)
      for (std::size_t at = 0; at < run.batches.size(); ++at)
        for (std::size_t loop = 0; loop < std::size(kLoops); ++loop)
          add_rows(run.params, run.batches[at], kLoops[loop], run.measured[loop][at],
                   loop == 0 ? nullptr : &run.measured[0][at]);
  }

 private:
  struct ModelRun {
    ordered_json params;
    std::string path;
    std::vector<unsigned> batches;
    std::vector<std::vector<Measured>> measured;  // by loop, then by batch
  };

  using Use = std::function<void(const Model&, Engine&, const std::string& what)>;
  void with_engine(const ModelRun& run, const LoopChoice& choice, const Use& use) {
    std::string what;
    for (const auto& [key, value] : run.params.items()) what += value.get<std::string>() + ", ";
    what += choice.name;
    const Progress progress = [&](std::string_view task, std::uint64_t done, std::uint64_t all) {
      if (all > 0) run_.show_progress(fmt::format("{}, {}", what, task), 100 * done / all, 100);
    };
    const Model model(run.path, progress);
    EngineOptions options;
    options.device = run_.device;
    options.slots = *std::max_element(run.batches.begin(), run.batches.end());
    options.context = std::min<std::size_t>(model.context(), 1024);
    options.scheduler = choice.scheduler;
    options.resident_loop = choice.form;
    options.device_records = kRecords;
    options.on_step = [this](const StepRecord&) { pause_if_wanted(); };
    Engine engine(model, options, progress);
    const bool is_large = engine.memory().weights_per_step > kLargeModel;
    lengths_ = run_.is_quick() ? Lengths{8, 24, 24} : Lengths{32, is_large ? 128u : 384u, 32};
    use(model, engine, what);
  }

  Measured measure_batch(const Model& model, Engine& engine, unsigned batch,
                         const std::string& what) {
    const bool is_resident = engine.options().scheduler == Scheduler::resident;
    const unsigned size = size_of(engine, batch);
    Measured measured;
    generate(model, engine, batch, lengths_.few);  // loads what is used for the first time
    new_records(engine);
    run_.show_progress(what, 1, 4);
    measured.tokens_per_second =
        generate(model, engine, batch, lengths_.output, &measured.host_intervals);
    measured.quiet = steps_of(new_records(engine), size);
    if (measured.quiet.gaps.empty())
      throw attacca::Error(fmt::format("{}: no two whole steps followed one another", what));
    if (batch == 1) {
      measured.first = first_tokens(model, engine, std::chrono::milliseconds(0));
      measured.first_after_sleep = first_tokens(model, engine, kSleep);
    }
    run_.show_progress(what, 2, 4);
    {
      const Hogs hogs(std::thread::hardware_concurrency());
      for (int run = 0; run < (run_.is_quick() ? 1 : kBusyRuns); ++run)
        measured.hogged_rates.push_back(generate(model, engine, batch, lengths_.output));
    }
    measured.hogged = steps_of(new_records(engine), size);
    run_.show_progress(what, 3, 4);
    if (is_resident && batch == std::min(kPausedBatch, engine.options().slots))
      measured.longest_us = longest_while_paused(model, engine, batch, measured.quiet);
    return measured;
  }

  /// Those since the last call.
  std::vector<Record> new_records(const Engine& engine) {
    std::vector<Record> records = engine.device_records();
    std::erase_if(records, [&](const Record& record) { return record.at <= seen_; });
    for (const Record& record : records) seen_ = std::max(seen_, record.at);
    return records;
  }

  /// The tokens of the graph that a decode step of `batch` sequences runs.
  static unsigned size_of(const Engine& engine, unsigned batch) {
    const std::vector<unsigned> sizes = engine.sizes().decode;
    const auto fits = std::lower_bound(sizes.begin(), sizes.end(), batch);
    return fits == sizes.end() ? batch : *fits;
  }

  /// Microseconds of the longest time from token to token, by the device's clock, in a run in which
  /// the host reads nothing for a second.
  double longest_while_paused(const Model& model, Engine& engine, unsigned batch,
                              const Steps& quiet) {
    const auto pause = std::chrono::milliseconds(run_.is_quick() ? 50 : 1000);
    const double microseconds = std::chrono::duration<double, std::micro>(pause).count();
    const auto most = static_cast<double>(engine.longest_sequence() - lengths_.prompt - 1);
    const double tokens = 1.5 * microseconds / quantiles(quiet.intervals).median;
    new_records(engine);
    pause_ = pause;
    generate(model, engine, batch,
             static_cast<unsigned>(std::clamp(tokens, 1.0 * lengths_.few, most)));
    if (pause_.load().count() != 0) throw attacca::Error("the host should have paused");
    const std::vector<double> intervals =
        steps_of(new_records(engine), size_of(engine, batch)).intervals;
    return *std::max_element(intervals.begin(), intervals.end());
  }

  /// The thread that reads news calls it after each step.
  void pause_if_wanted() {
    std::this_thread::sleep_for(pause_.exchange(std::chrono::milliseconds(0)));
  }

  /// Tokens per second of `batch` requests at once, after the first token of each.
  double generate(const Model& model, Engine& engine, unsigned batch, unsigned output,
                  std::vector<double>* intervals = nullptr) {
    std::vector<Request> requests(batch);
    std::vector<std::vector<double>> times(batch);
    for (unsigned at = 0; at < batch; ++at) {
      requests[at] = request(model, output);
      requests[at].on_event = [&times, at](const RequestEvent& event) {
        if (event.token >= 0) times[at].push_back(event.seconds);
      };
    }
    const std::vector<Reply> replies = engine.generate(requests);
    engine.wait_until_idle();
    double first = 0, last = 0;
    for (const Reply& reply : replies) {
      if (reply.tokens.size() != output)
        throw attacca::Error(fmt::format("a reply of {} tokens ended as '{}' {}",
                                         reply.tokens.size(), finish_name(reply.finish),
                                         reply.error));
      first = std::max(first, reply.seconds_to_first_token);
      last = std::max(last, reply.seconds);
    }
    if (intervals)
      for (const std::vector<double>& each : times)
        for (std::size_t at = 2; at < each.size(); ++at)
          intervals->push_back((each[at] - each[at - 1]) * 1e6);
    return batch * (output - 1) / (last - first);
  }

  double calls_per_token(const Model& model, Engine& engine, unsigned batch) {
    std::string why_not;
    const auto counter = attacca::instruments::start_call_counter(why_not);
    if (!counter) throw attacca::Error(why_not);
    // From the moment when all requests have three tokens to ten before the first one's end, so
    // that neither admissions nor the launch of the loop nor its end are counted. The replies are
    // long enough for that: the last request may be admitted many steps after the first.
    const unsigned output = 2 * lengths_.few;
    std::atomic<unsigned> steady = 0;
    std::atomic<std::uint64_t> tokens = 0;
    struct Moment {
      std::uint64_t calls = 0, tokens = 0;
    };
    Moment from, to;
    const auto now = [&] { return Moment{counter->calls(), tokens.load()}; };
    std::vector<Request> requests(batch);
    for (std::size_t at = 0; at < batch; ++at) {
      requests[at] = request(model, output);
      requests[at].on_event = [&, at, seen = 0u](const RequestEvent& event) mutable {
        if (event.token < 0) return;
        ++tokens;
        if (++seen == 3 && ++steady == batch) from = now();
        if (at == 0 && seen == output - 10) to = now();
      };
    }
    engine.generate(requests);
    engine.wait_until_idle();
    if (to.tokens <= from.tokens)
      throw attacca::Error(
          fmt::format("{} requests of {} tokens had no steady state", batch, output));
    return static_cast<double>(to.calls - from.calls) /
           static_cast<double>(to.tokens - from.tokens);
  }

  /// From `submit` on an idle engine to the first token, less the time of its step; the thread that
  /// submits sleeps before. Records are read at the end: to copy them before a request would leave
  /// the host's caches cold.
  FirstTokens first_tokens(const Model& model, Engine& engine, std::chrono::milliseconds sleep) {
    new_records(engine);
    std::vector<double> seconds;
    for (int round = 0; round < (run_.is_quick() ? 3 : 40); ++round) {
      const Request one = request(model, 1);
      std::this_thread::sleep_for(sleep);
      seconds.push_back(engine.generate(one).seconds_to_first_token);
      engine.wait_until_idle();
    }
    const std::vector<FirstStep> steps = first_steps(new_records(engine));
    if (steps.size() != seconds.size())
      throw attacca::Error(fmt::format("{} requests of one token were answered by {} steps",
                                       seconds.size(), steps.size()));
    const auto us = [](std::uint64_t from, std::uint64_t to) {
      return static_cast<double>(to - from) / 1e3;
    };
    FirstTokens first;
    for (std::size_t at = 0; at < steps.size(); ++at) {
      const FirstStep& step = steps[at];
      first.over_step.push_back(seconds[at] * 1e6 - us(step.begin, step.end));
      if (step.plan != 0) first.to_step.push_back(us(step.plan, step.begin));
      if (step.news != 0) first.to_news.push_back(us(step.end, step.news));
    }
    return first;
  }

  Request request(const Model& model, unsigned output) {
    Request request;
    request.tokens = random_tokens(model, lengths_.prompt, ++requests_);
    request.max_tokens = output;
    request.sampling.temperature = 0.7f;
    request.sampling.top_p = 0.95f;
    request.sampling.seed = requests_;
    request.ignores_end = true;
    return request;
  }

  /// `host`: what to compare with, if anything. The gates are for the form that is the default.
  void add_rows(const ordered_json& params, unsigned batch, const LoopChoice& choice,
                const Measured& m, const Measured* host) {
    const bool is_judged =
        host && choice.form == EngineOptions{}.resident_loop && run_.device.is_cuda();
    const auto row_of = [&](const char* name, const Summary& value, const char* unit) -> Row {
      Row row{.name = name, .params = params, .value = value, .unit = unit};
      row.params["batch"] = batch;
      row.params["loop"] = choice.name;
      return row;
    };
    const auto one = [](double value) { return Summary{value, value, value}; };
    const auto add = [&](Row row, std::optional<double> baseline, std::optional<double> limit) {
      row.baseline = host ? baseline : std::nullopt;
      if (is_judged) row.limit = limit;
      run_.add(std::move(row));
    };
    const Summary gap = quantiles(m.quiet.gaps), interval = quantiles(m.quiet.intervals);
    const Summary hogged = quantiles(m.hogged.intervals);
    add(row_of("gap", gap, "µs"), host ? quantiles(host->quiet.gaps).median : 0, kMostGap);
    add(row_of("idle", one(m.quiet.idle_percent), "%"), host ? host->quiet.idle_percent : 0,
        kMostIdle);
    add(row_of("token to token", interval, "µs"),
        host ? quantiles(host->quiet.intervals).median : 0, std::nullopt);
    add(row_of("token to token, p99", one(interval.p90), "µs"),
        host ? quantiles(host->quiet.intervals).p90 : 0, std::nullopt);
    add(row_of("token to token, host busy", hogged, "µs"),
        host ? quantiles(host->hogged.intervals).median : 0, std::nullopt);
    add(row_of("token to token, p99, host busy", one(hogged.p90), "µs"),
        host ? quantiles(host->hogged.intervals).p90 : 0, kMostHogged * interval.p90);
    Row rate = row_of("output", one(m.tokens_per_second), "tokens/s");
    rate.is_rate = true;
    add(rate, host ? host->tokens_per_second : 0,
        host && (batch == 1 || batch == 64) ? std::optional(kLeastRate * host->tokens_per_second)
                                            : std::nullopt);
    Row busy_rate = row_of("output, host busy", summarize(m.hogged_rates), "tokens/s");
    busy_rate.is_rate = true;
    const double busy_host = host ? summarize(host->hogged_rates).median : 0;
    add(busy_rate, busy_host, busy_host);
    add(row_of("token to token, as a reader on the host sees it", quantiles(m.host_intervals),
               "µs"),
        host ? quantiles(host->host_intervals).median : 0, std::nullopt);
    if (m.calls_per_token)
      add(row_of("driver calls a token", one(*m.calls_per_token), "calls"),
          host && host->calls_per_token ? *host->calls_per_token : 0, 0.0);
    if (batch == 1) {
      add(row_of("first token, over the step itself", quantiles(m.first.over_step), "µs"),
          host ? quantiles(host->first.over_step).median : 0, kMostAdmission);
      add(row_of("first token, over the step itself, after a sleep",
                 quantiles(m.first_after_sleep.over_step), "µs"),
          host ? quantiles(host->first_after_sleep.over_step).median : 0, std::nullopt);
    }
    const auto add_part = [&](const char* name, const std::vector<double>& values) {
      if (!values.empty()) add(row_of(name, quantiles(values), "µs"), std::nullopt, std::nullopt);
    };
    add_part("first token, from the first plan to the step", m.first.to_step);
    add_part("first token, from the step to the end of its commit", m.first.to_news);
    if (m.longest_us)
      add(row_of("token to token, longest while the host pauses", one(*m.longest_us), "µs"),
          std::nullopt, kMostPaused * interval.median);
    if (choice.scheduler == Scheduler::host) return;
    add_part("gap, up to the turn", m.quiet.before_turns);
    add_part("gap, the turn", m.quiet.turns);
    add_part("gap, behind the turn", m.quiet.behind_turns);
    add_part("commit", m.quiet.commits);
    add(row_of("plan and commit", quantiles(m.quiet.plans), "µs"), std::nullopt,
        batch == 256 ? std::optional(kMostPlan) : std::nullopt);
  }

  Run& run_;
  Lengths lengths_{};
  std::uint64_t seen_ = 0;  // when the newest record that was read was written
  std::atomic<std::chrono::milliseconds> pause_ = std::chrono::milliseconds(0);
  unsigned requests_ = 0;
  std::vector<ModelRun> models_;
};

void run_loop(Run& run) {
  run.note(
      "steady decode steps of requests sampled at temperature 0.7 and top-p 0.95, with the marks "
      "that this needs: two kernels of one thread in each step, for both schedulers. The column "
      "after the median is p10, the one behind it p99");
  run.note(
      "gap: from the mark behind sampling to the one before the next step's first kernel. Host "
      "busy: as many threads that only compute as there are processors; of its three runs the "
      "output is "
      "the median, p10 and p90. The host pauses: for a second its thread reads nothing. After a "
      "sleep: the thread that submits has slept for 20 ms, and its core with it");
  LoopRun loop(run);
  const auto batches = [&](std::vector<unsigned> otherwise) {
    return run.engine.slots.empty() ? std::move(otherwise) : run.engine.slots;
  };
  if (!is_synthetic(run)) {
    loop.measure(ordered_json::object(), model_path_of(run), batches({1, 8}));
    loop.count_calls();
    return loop.add_rows();
  }
  std::vector<std::string> shapes = run.engine.shapes;
  if (shapes.empty())
    shapes = run.is_quick() ? std::vector<std::string>{"llama-1b"}
                            : std::vector<std::string>{"llama-1b", "llama-8b"};
  std::vector<std::unique_ptr<RandomFile>> files;
  for (const std::string& shape : shapes) {
    files.push_back(std::make_unique<RandomFile>(run, shape, "bf16"));
    loop.measure({{"shape", shape}}, files.back()->path().string(), batches({1, 8, 64, 256}));
  }
  loop.count_calls();
  loop.add_rows();
}

const Registered registered{{.name = "loop",
                             .question = "what does the loop around the steps cost, on the host "
                                         "and on the device?",
                             .needs = Needs::either,
                             .run = run_loop,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
