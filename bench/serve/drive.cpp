// drive.cpp: an open load is a chain of timers, one request each; a closed one is a number of
// clients that each send a request when the one before has ended.
#include "serve/drive.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace bench::serve {

namespace {

using std::chrono::duration;
using std::chrono::duration_cast;

constexpr double kPauseAfterFailure = 0.1;
constexpr double kBetweenProgress = 0.05;

class Drive {
 public:
  Drive(Transport& transport, const LoadOptions& options, const MakeCall& make_call,
        const OnProgress& on_progress)
      : transport_(transport),
        options_(options),
        make_call_(make_call),
        on_progress_(on_progress),
        source_(options),
        start_(transport.now()) {}

  std::vector<Record> run() {
    if (options_.is_open())
      schedule_next();
    else
      for (unsigned client = 0; client < options_.concurrency; ++client) send_next();
    show_progress();
    transport_.run();
    return {std::make_move_iterator(records_.begin()), std::make_move_iterator(records_.end())};
  }

 private:
  double now() const { return duration<double>(transport_.now() - start_).count(); }
  Time time_at(double seconds) const {
    return start_ + duration_cast<Time::duration>(duration<double>(seconds));
  }

  void schedule_next() {
    const std::optional<Planned> planned = source_.next();
    is_last_sent_ = !planned;
    if (!planned) return;
    transport_.at(time_at(planned->at), [this, planned = *planned] {
      schedule_next();
      send(planned, planned.at, [] {});
    });
  }

  /// What a client of a closed load does: one request, and then the next.
  void send_next() {
    const bool is_over = options_.seconds && now() >= *options_.seconds;
    const std::optional<Planned> planned = is_over ? std::nullopt : source_.next();
    is_last_sent_ |= !planned;
    if (!planned) return;
    send(*planned, {}, [this, record = records_.size()] {
      if (records_[record].is_complete()) return send_next();
      transport_.at(time_at(now() + kPauseAfterFailure), [this] { send_next(); });
    });
  }

  /// `due`: when it should have been sent, if not now.
  void send(const Planned& planned, std::optional<double> due, std::function<void()> then) {
    HttpCall call = make_call_(planned);
    const double sent = now();
    Record& record = records_.emplace_back();  // a deque: it stays where it is
    record.planned = planned;
    record.sent = sent;
    record.due = due.value_or(sent);
    ++running_;
    transport_.send(std::move(call),
                    std::make_shared<CompletionReader>(transport_, start_, record,
                                                       [this, &record, then = std::move(then)] {
                                                         --running_;
                                                         failed_ += record.is_complete() ? 0 : 1;
                                                         then();
                                                       }));
  }

  void show_progress() {
    const bool is_over = is_last_sent_ && running_ == 0;
    const auto ended = static_cast<double>(records_.size() - running_);
    double share = is_over ? 1 : 0;
    if (options_.requests) share = std::max(share, ended / static_cast<double>(*options_.requests));
    if (!options_.trace.empty())
      share = std::max(share, ended / static_cast<double>(options_.trace.size()));
    if (options_.seconds) share = std::max(share, std::min(1.0, now() / *options_.seconds));
    on_progress_({share, records_.size() - running_, failed_, running_});
    if (is_over) return;
    transport_.at(time_at(now() + kBetweenProgress), [this] { show_progress(); });
  }

  Transport& transport_;
  const LoadOptions& options_;
  const MakeCall& make_call_;
  const OnProgress& on_progress_;
  RequestSource source_;
  Time start_;
  std::deque<Record> records_;
  std::size_t running_ = 0;
  std::size_t failed_ = 0;
  bool is_last_sent_ = false;
};

}  // namespace

std::vector<Record> drive(Transport& transport, const LoadOptions& options,
                          const MakeCall& make_call, const OnProgress& on_progress) {
  return Drive(transport, options, make_call, on_progress).run();
}

}  // namespace bench::serve
