// Tests of a load as a whole, against a server and a clock that the tests make: when requests are
// sent, what becomes of their replies, and the figures of the report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bench/serve/drive.hpp"
#include "bench/serve/report.hpp"
#include "bench/serve/timeline.hpp"

namespace {

using namespace bench::serve;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string text_event(const std::string& text) {
  return "data: {\"choices\": [{\"text\": \"" + text + "\", \"finish_reason\": null}]}\n\n";
}
const std::string kUsage =
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 10, \"completion_tokens\": 4, "
    "\"prompt_tokens_details\": {\"cached_tokens\": 5}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

/// A piece of a reply, so many seconds after the request.
struct Piece {
  double after;
  std::string bytes;
};
struct Script {
  int status = 200;
  std::vector<Piece> pieces = {};
  std::string problem = {};  // at the last piece
};

/// First text after 0.5 s, two more after 0.1 s each, the end after another 0.1 s.
Script good_reply() {
  return {200,
          {{0.5, text_event("a")},
           {0.6, text_event("b")},
           {0.7, text_event("c")},
           {0.8, kUsage + kDone}}};
}

/// Time stands still, except that `run` jumps from one timer to the next.
class Simulation final : public Transport {
 public:
  Time now() const override { return now_; }
  void at(Time time, std::function<void()> work) override {
    timers_.emplace(std::max(time, now_), std::move(work));
  }
  void send(HttpCall call, std::shared_ptr<ReplySink> sink) override {
    sent_at.push_back(seconds());
    bodies.push_back(call.body);
    most_at_once = std::max(most_at_once, ++at_once_);
    const Script script = reply(sent_at.size() - 1);
    double end = 0;
    if (script.status > 0) later(0, [sink, script] { sink->on_status(script.status); });
    for (const Piece& piece : script.pieces) {
      later(piece.after, [sink, piece] { sink->on_body(piece.bytes); });
      end = piece.after;
    }
    later(end, [this, sink, script] {
      --at_once_;
      sink->on_end(script.problem);
    });
  }
  void run() override {
    while (!timers_.empty()) {
      auto first = timers_.extract(timers_.begin());
      now_ = first.key();
      first.mapped()();
    }
  }

  double seconds() const { return std::chrono::duration<double>(now_ - Time{}).count(); }

  std::function<Script(std::size_t)> reply = [](std::size_t) { return good_reply(); };
  std::vector<double> sent_at;
  std::vector<std::string> bodies;
  std::size_t most_at_once = 0;

 private:
  void later(double after, std::function<void()> work) {
    at(now_ + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(after)),
       std::move(work));
  }

  Time now_{};
  std::multimap<Time, std::function<void()>> timers_;
  std::size_t at_once_ = 0;
};

std::vector<Record> run(Simulation& server, const LoadOptions& options) {
  return drive(
      server, options,
      [](const Planned& planned) {
        return HttpCall{"POST", "/", std::to_string(planned.index)};
      },
      [](const Progress& progress) {
        EXPECT_GE(progress.share, 0);
        EXPECT_LE(progress.share, 1);
      });
}

LoadOptions at_once(unsigned concurrency, std::uint64_t requests) {
  LoadOptions options;
  options.concurrency = concurrency;
  options.requests = requests;
  return options;
}

/// One request with that reply.
Record record_of(const Script& script) {
  Simulation server;
  server.reply = [&](std::size_t) { return script; };
  return run(server, at_once(1, 1)).at(0);
}

Setup setup_of(const LoadOptions& load) {
  Setup setup;
  setup.target.url = parse_url("http://a:1");
  setup.load = load;
  setup.words.is_measured = true;
  return setup;
}

TEST(ServeDrive, a_closed_load_keeps_so_many_requests_running) {
  Simulation server;
  const auto records = run(server, at_once(3, 8));
  EXPECT_EQ(records.size(), 8u);
  EXPECT_EQ(server.most_at_once, 3u);
  EXPECT_THAT(server.sent_at, ElementsAre(0, 0, 0, 0.8, 0.8, 0.8, 1.6, 1.6));
  EXPECT_THAT(server.bodies, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"));
}

TEST(ServeDrive, a_closed_load_begins_nothing_after_its_seconds_and_waits_for_the_rest) {
  Simulation server;
  LoadOptions options;
  options.concurrency = 1;
  options.seconds = 2;
  const auto records = run(server, options);
  EXPECT_THAT(server.sent_at, ElementsAre(0, 0.8, 1.6));
  EXPECT_TRUE(records.back().is_complete());
}

TEST(ServeDrive, a_server_that_refuses_is_asked_ten_times_a_second) {
  Simulation server;
  server.reply = [](std::size_t) { return Script{.status = 429}; };
  const auto records = run(server, at_once(1, 3));
  EXPECT_THAT(server.sent_at,
              ElementsAre(0, testing::DoubleNear(0.1, 1e-6), testing::DoubleNear(0.2, 1e-6)));
  EXPECT_EQ(records.back().failure, "HTTP 429");
}

TEST(ServeDrive, an_open_load_does_not_wait_for_replies) {
  Simulation server;
  LoadOptions options = at_once(1, 5);
  options.rate = 10;
  options.arrival = Arrival::constant;
  run(server, options);
  EXPECT_EQ(server.most_at_once, 5u);
  ASSERT_EQ(server.sent_at.size(), 5u);
  for (std::size_t at = 0; at < 5; ++at)
    EXPECT_NEAR(server.sent_at[at], 0.1 * static_cast<double>(at), 1e-6);
}

TEST(ServeDrive, a_reply_becomes_its_times_and_its_usage) {
  const Record record = record_of(good_reply());
  EXPECT_TRUE(record.is_complete());
  EXPECT_THAT(record.texts, ElementsAre(0.5, 0.6, 0.7));
  EXPECT_EQ(record.end, 0.8);
  EXPECT_EQ(record.output_tokens(), 4u);
}

TEST(ServeDrive, each_way_to_fail_has_its_reason) {
  const std::string text = text_event("a");
  const auto failure = [](const Script& script) { return record_of(script).failure; };
  EXPECT_EQ(failure({0, {}, "cannot connect: Connection refused"}),
            "cannot connect: Connection refused");
  EXPECT_EQ(failure({200, {{0.1, text}}, "the connection closed early"}),
            "the connection closed early");
  EXPECT_EQ(failure({500, {{0.1, "oops"}}}), "HTTP 500");
  EXPECT_EQ(failure({404, {{0.1, "oops"}}, "the connection closed early"}), "HTTP 404");
  EXPECT_EQ(failure({200, {{0.1, text}}}), "the stream ended without [DONE]");
  EXPECT_EQ(failure({200, {{0.1, "{\"choices\": []}"}}}), "the reply is no stream of events");
  EXPECT_EQ(failure({200, {}}), "the reply is no stream of events");
  EXPECT_EQ(failure({200, {{0.1, text + "data: oops\n\n" + kDone}}}), "an event is no JSON");
  EXPECT_EQ(failure({200, {{0.1, "data: {\"error\": \"lost\"}\n\n" + kDone}}}),
            "an error in the stream");
  EXPECT_EQ(failure({200, {{0.1, std::string(2 << 20, 'x')}}}), "an event is too large");
}

TEST(ServeDrive, a_stream_that_said_its_end_is_complete_whatever_follows) {
  EXPECT_TRUE(
      record_of({200, {{0.1, kDone}, {0.2, "data: oops\n\n"}}, "Connection reset"}).is_complete());
  EXPECT_TRUE(record_of({200, {{0.1, "data: {\"choices\": [{\"finish_reason\": \"stop\"}]}\n\n"}}})
                  .is_complete());
}

TEST(ServeReport, percentiles_lie_between_the_samples_beside_them) {
  const Spread spread = spread_of({3, 1, 2, 5, 4});
  EXPECT_EQ(spread.mean, 3);
  EXPECT_EQ(spread.p50, 3);
  EXPECT_DOUBLE_EQ(spread.p90, 4.6);
  EXPECT_EQ(spread_of({7}).p99, 7);
  EXPECT_EQ(spread_of({}).count, 0u);
}

TEST(ServeReport, latencies_count_from_the_request_and_tokens_are_the_servers) {
  Simulation server;
  const Figures figures = figures_of(run(server, at_once(2, 4)), {});
  EXPECT_DOUBLE_EQ(figures.ttft.p50, 500);
  EXPECT_NEAR(figures.tpot.p99, 200.0 / 3, 1e-6);  // four tokens in three pieces of text
  EXPECT_NEAR(figures.itl.mean, 100, 1e-6);
  EXPECT_NEAR(figures.e2e.p90, 800, 1e-6);
  EXPECT_NEAR(figures.seconds, 1.6, 1e-9);
  EXPECT_EQ(figures.output_tokens, 16u);
  EXPECT_EQ(figures.cached_tokens, 20u);
}

TEST(ServeReport, goodput_counts_complete_requests_that_meet_every_target) {
  Simulation server;
  server.reply = [](std::size_t request) {
    Script script = good_reply();
    if (request == 1) script.pieces.front().after = 0.59;
    if (request == 2) script.status = 500;
    return script;
  };
  const auto records = run(server, at_once(4, 4));
  EXPECT_EQ(figures_of(records, {.ttft = 550}).good, 2u);
  EXPECT_EQ(figures_of(records, {.ttft = 600, .tpot = 70}).good, 3u);
  EXPECT_EQ(figures_of(records, {.tpot = 50}).good, 1u);
}

TEST(ServeReport, failures_are_counted_by_their_reasons_the_most_frequent_first) {
  Simulation server;
  server.reply = [](std::size_t request) {
    return request == 0 ? Script{.status = 500}
                        : Script{.status = 429, .pieces = {{0.1, "{\"error\": \"busy\"}"}}};
  };
  const auto records = run(server, at_once(1, 3));
  const Figures figures = figures_of(records, {});
  ASSERT_EQ(figures.failures.size(), 2u);
  EXPECT_EQ(figures.failures[0].reason, "HTTP 429");
  EXPECT_EQ(figures.failures[0].count, 2u);
  const std::string table = table_of(setup_of(at_once(1, 3)), figures);
  EXPECT_THAT(table, HasSubstr("failed    2: HTTP 429: busy\n"));
  EXPECT_THAT(table, Not(HasSubstr("TTFT")));
}

TEST(ServeReport, the_json_has_a_line_for_each_request) {
  Simulation server;
  const LoadOptions load = at_once(2, 3);
  const auto records = run(server, load);
  const auto json = json_of(setup_of(load), figures_of(records, {}), records);
  EXPECT_EQ(json["complete"], 3);
  EXPECT_EQ(json["requests"].size(), 3u);
  EXPECT_EQ(json["requests"][0]["first"], 0.5);
  EXPECT_EQ(json["load"]["concurrency"], 2);
  EXPECT_NEAR(json["output_tokens_per_second"].get<double>(), 12 / 1.6, 1e-6);
}

TEST(ServeReport, a_load_that_this_machine_could_not_keep_up_with_is_noted) {
  Record late;
  late.sent = late.end = 1;
  EXPECT_THAT(table_of(setup_of({}), figures_of({late}, {})), HasSubstr("too slow for the load"));
}

TEST(ServeTimeline, draws_each_state_of_requests_and_escapes_its_texts) {
  Simulation server;
  server.reply = [](std::size_t request) {
    return request == 1 ? Script{.status = 500} : good_reply();
  };
  const std::string svg = timeline_svg(run(server, at_once(2, 3)), "a < b", "c & d");
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("c &amp; d"));
  EXPECT_THAT(svg, HasSubstr("requests, up to 2 at once"));
  for (const char* bad : {"nan", "inf"}) EXPECT_THAT(svg, Not(HasSubstr(bad)));
  EXPECT_THAT(timeline_svg({}, "", ""), HasSubstr("</svg>"));
}

TEST(ServeTimeline, breaks_a_long_footer_behind_a_comma) {
  const std::string part(90, 'x');
  const std::string svg = timeline_svg({}, "", part + ", " + part + ", y");
  EXPECT_THAT(svg, HasSubstr(">" + part + ",</text>"));
  EXPECT_THAT(svg, HasSubstr(">" + part + ", y</text>"));
}

}  // namespace
