// resident_scheduler.cpp: letters and orders to the loop, news from it, and its launches.
#include "engine/resident_scheduler.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "core/pause_processor.hpp"
#include "engine/coverage.hpp"
#include "engine/outcome.hpp"
#include "engine/resident_mail.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"
#include "kernels/sample/sampling.hpp"

namespace attacca::engine {

namespace {

using kernels::Sampled;
using kernels::SamplingParams;
using resident::News;
using resident::Order;
using namespace std::chrono_literals;

/// How long `step` waits for news before the driver looks into its inbox again.
constexpr auto kPatience = 500us;
/// It polls eagerly at first. On the host backend the loop needs the processor itself.
constexpr auto kEager = 20us;
constexpr auto kEagerOnGpu = 300us;  // a nap takes several times its length
/// And after a launch until the first step's news, for whose token somebody has just begun to wait.
constexpr auto kEagerAfterLaunch = 20ms;
/// A thread that has slept finds its caches cold, and a launch takes it two to five times as long.
/// So the driver's looks for another request so long before it sleeps.
constexpr std::chrono::nanoseconds kPollsWhenIdle = 2ms;
constexpr auto kNap = 20us;
/// Without news for this long the host asks whether the loop has failed.
constexpr auto kSuspicious = 20ms;
/// The loop runs so long before it makes room for another engine: it takes a launch to go on.
constexpr auto kLeastTurn = 1ms;

constexpr std::uint64_t kStepsInRing = 4096;
constexpr std::uint64_t kLeastNews = 1u << 15;  // with few slots steps are short
constexpr std::uint64_t kMostNews = 1u << 20;

std::uint32_t default_capacity(const schedule::Limits& limits) {
  const std::uint64_t wanted = std::clamp(kStepsInRing * (limits.slots + 1), kLeastNews, kMostNews);
  return static_cast<std::uint32_t>(
      std::bit_ceil(std::max<std::uint64_t>(wanted, 2 * resident::news_wanted(limits))));
}

}  // namespace

ResidentScheduler::ResidentScheduler(std::unique_ptr<StepRunner> runner,
                                     const schedule::Limits& limits,
                                     const llm::EngineOptions& options,
                                     const device::RecordsRef& records,
                                     const formats::Progress& progress, std::uint32_t news_capacity)
    : limits_(limits),
      options_(options),
      records_(records),
      news_capacity_(news_capacity > 0 ? news_capacity : default_capacity(limits)),
      log_(options.step_log, options.on_step),
      runner_(std::move(runner)),
      stream_(options.device),
      ended_(options.device),
      letters_(options.device, limits.requests, Visibility::shared),
      prompts_(options.device, std::size_t{limits.requests} * limits.max_context,
               Visibility::shared),
      stop_(options.device, std::size_t{limits.requests} * SamplingParams::kMaxStopTokens,
            Visibility::shared),
      bias_(options.device, std::size_t{limits.requests} * SamplingParams::kMaxBiases,
            Visibility::shared),
      masks_sent_(options.device,
                  std::size_t{limits.requests} * kernels::mask_words(runner_->vocabulary()),
                  Visibility::shared),
      turn_(options.turns),
      masks_(runner_->slots().mask_rows()),
      embedder_(*runner_, limits, options, log_) {
  or_give_up(runner_->line(), [&] {
    require_graphs(limits_, options_.graphs);
    if (runner_->parallel()) post_.emplace(*runner_, options_.device, limits_);
    start(progress);
  });
}

ResidentScheduler::~ResidentScheduler() { stop(); }

/// Makes an empty schedule, and the loop that runs it. If it throws, no request is left.
void ResidentScheduler::start(const formats::Progress& progress) {
  occupants_.assign(limits_.requests, {});
  free_entries_.clear();
  for (std::uint32_t entry = limits_.requests; entry-- > 0;) free_entries_.push_back(entry);
  live_ = 0;
  is_running_ = has_ordered_forget_ = false;
  masks_.start_over({});
  {
    auto mail = std::make_shared<ResidentMail>(options_.device, limits_, news_capacity_);
    const std::lock_guard lock(offer_mutex_);
    mail_ = std::move(mail);
  }
  runner_->slots().reset_edges();

  // The state is written here and copied: emptying a large pool takes one thread of a GPU long.
  std::vector<schedule::Line> memory(mail_->state_memory.size());
  schedule::State state = schedule::bind_state(limits_, runner_->plan(), memory.data());
  schedule::reset(state);
  mail_->state_memory.write(memory);
  mail_->plan_memory.write(std::vector<schedule::Line>(mail_->plan_memory.size()));  // no step
  resident::LoopState loop;
  loop.state = schedule::rebind(state, schedule::bind_plan(limits_, mail_->plan_memory.data()),
                                mail_->state_memory.data());
  loop.running = runner_->device_plan();
  loop.sampled = mail_->sampled.data();
  loop.cached_tokens = mail_->cached_tokens.data();
  loop.masks = mail_->masks.data();
  loop.params = mail_->params.data();
  loop.stop = mail_->stop.data();
  mail_->loop_state.write({&loop, 1});

  const Device& device = options_.device;
  const std::size_t free = device.is_cuda() ? device.bytes_free() : 0;
  mail_->loop = build_loop(*mail_, limits_, progress);
  if (device.is_cuda()) graph_device_bytes_ = free - std::min(free, device.bytes_free());
}

void ResidentScheduler::admit(driver::JobPtr job) {
  if (job->pooling != llm::Pooling::none) return embedder_.admit(std::move(job));
  const std::uint32_t entry = free_entries_.back();
  const driver::SlotSampling& sampling = job->sampling;
  letters_.data()[entry] = {.request = {.id = job->id,
                                        .prompt = static_cast<std::uint32_t>(job->prompt.size()),
                                        .max_new = static_cast<std::uint32_t>(job->max_new),
                                        .wants_all_logits = job->is_score},
                            .params = sampling.params,
                            .is_masked = sampling.allowed != nullptr};
  if (const std::string problem = schedule::why_refused(limits_, letters_.data()[entry].request);
      !problem.empty())
    throw BadArgument(problem);
  const auto copy = [&](const auto& from, auto& to, std::size_t stride) {
    std::copy(from.begin(), from.end(), to.data() + entry * stride);
  };
  copy(job->prompt, prompts_, limits_.max_context);
  copy(sampling.stop_tokens, stop_, SamplingParams::kMaxStopTokens);
  copy(sampling.biases, bias_, SamplingParams::kMaxBiases);
  order({.kind = Order::Kind::admit,
         .entry = entry,
         .id = job->id,
         .prompt = static_cast<std::uint32_t>(job->prompt.size())});
  free_entries_.pop_back();
  ++live_;
  job->entry = entry;
  if (sampling.allowed) masks_.admit(job);
  occupants_[entry] = {job->id, std::move(job)};
}

/// There is room: at most five orders of an entry are unread, a late cancel of its last request,
/// and admit, permit, cancel and the cancel of `stop` for this one.
void ResidentScheduler::order(const Order& order) { mail_->order_writer.try_push(order); }

bool ResidentScheduler::has_unread_orders() {
  const std::uint32_t capacity = mail_->orders.capacity();
  return mail_->order_writer.room(capacity) < capacity;
}

void ResidentScheduler::remove(driver::Job& job) {
  if (job.pooling != llm::Pooling::none) return embedder_.remove(job);
  order({.kind = Order::Kind::cancel, .entry = job.entry, .id = job.id});
  occupants_[job.entry].is_removed = true;
  job.entry = driver::Job::kNoEntry;
}

void ResidentScheduler::release(std::uint32_t entry) {
  driver::Job& job = *occupants_[entry].job;
  job.entry = driver::Job::kNoEntry;
  masks_.release(job);
  occupants_[entry] = {};
  free_entries_.push_back(entry);
  --live_;
}

void ResidentScheduler::launch() {
  if (has_offer_) take_offered_loop();
  turn_.take();
  has_ordered_pause_ = false;
  mail_->launch.data()->orders = mail_->order_writer.place().own;
  or_give_up(runner_->line(), [&] {
    if (post_) runner_->line()->begin_loop();
    mail_->loop->launch(stream_);
    stream_.record(ended_);
  });
  launched_ = last_step_ = clock_.launched();
  last_step_at_ = 0;
  is_running_ = true;
  ++launches_;
}

/// On the host backend the loop needs the processor itself.
std::chrono::nanoseconds ResidentScheduler::polls() const {
  return options_.device.is_cuda() ? kPollsWhenIdle : 0ns;
}

/// Requests that wait for masks are left to `step`: the loop would end at once.
void ResidentScheduler::begin() {
  if (is_running_ || live_ == 0 || masks_.has_open() || !turn_.try_take()) return;
  launch();
  clock_.waiting();
}

bool ResidentScheduler::step(std::vector<driver::Outcome>& outcomes) {
  if (is_idle()) return false;
  const std::size_t already = outcomes.size();
  if (!is_running_ && !embedder_.is_idle()) embed(outcomes);
  take_in_masks(outcomes);
  if (!is_running_ && end_ == resident::LoopEnd::waits && !has_unread_orders()) {
    if (embedder_.is_idle()) masks_.wait(kPatience);
    return true;
  }
  if (!is_running_ && live_ > 0) launch();
  if (!is_running_ || outcomes.size() > already) return true;
  const driver::Clock::time_point began = driver::Clock::now();
  clock_.waiting();
  pause_if_wanted(began);
  while (!take_in_news(outcomes)) {
    take_in_masks(outcomes);
    const driver::Clock::time_point now = driver::Clock::now();
    pause_if_wanted(now);
    if (now - last_step_ > kSuspicious) look_for_failure();
    if (now - began > kPatience) break;
    if (is_eager(began, now))
      poll();
    else
      std::this_thread::sleep_for(kNap);
  }
  return true;
}

/// Whether to poll rather than nap, `began` being when the host began to wait for news.
bool ResidentScheduler::is_eager(driver::Clock::time_point began,
                                 driver::Clock::time_point now) const {
  if (!options_.device.is_cuda()) return now - began <= kEager;
  return now - began <= kEagerOnGpu || (last_step_at_ == 0 && now - launched_ <= kEagerAfterLaunch);
}

/// Between two looks for news.
void ResidentScheduler::poll() const {
  if (options_.device.is_cuda())
    pause_processor();
  else
    std::this_thread::yield();
}

/// One step of embeddings; then the loop has its turn again.
void ResidentScheduler::embed(std::vector<driver::Outcome>& outcomes) {
  const driver::Clock::time_point began = clock_.launched();
  clock_.waiting();
  embedder_.step(outcomes);
  clock_.done(began);
}

/// Makes room for another engine, for embeddings, or for a loop with other step sizes, once the
/// loop has made a step: each has its turn, whoever waits.
void ResidentScheduler::pause_if_wanted(driver::Clock::time_point now) {
  const bool is_wanted = turn_.is_wanted() || !embedder_.is_idle() || has_offer_;
  const bool had_turn = last_step_at_ != 0 && now - launched_ >= kLeastTurn;
  if (has_ordered_pause_ || !is_wanted || !had_turn) return;
  order({.kind = Order::Kind::pause});
  has_ordered_pause_ = true;
}

/// Sends masks to the loop, with the permission to go on.
void ResidentScheduler::take_in_masks(std::vector<driver::Outcome>& outcomes) {
  if (!masks_.has_open() || has_ordered_forget_) return;
  if (!is_running_) masks_.end_all_steps();
  for (ReplyMasks::Grant& grant : masks_.take()) {
    if (grant.error.empty()) {
      permit(grant);
    } else {
      remove(*grant.job);
      outcomes.push_back(failure_of(grant.job, std::move(grant.error)));
    }
  }
  if (!masks_.must_forget_edges()) return;
  order({.kind = Order::Kind::forget});
  has_ordered_forget_ = true;
}

void ResidentScheduler::permit(const ReplyMasks::Grant& grant) {
  const driver::Job& job = *grant.job;
  const kernels::SamplingParams& params = job.sampling.params;
  // The loop has read the mask that was there: the request has sampled with it, or is new.
  if (grant.mask)
    std::copy(grant.mask->begin(), grant.mask->end(),
              masks_sent_.data() + std::size_t{job.entry} * grant.mask->size());
  Order permit{.kind = Order::Kind::permit,
               .entry = job.entry,
               .id = job.id,
               .mask = params.mask,
               .is_new = grant.mask != nullptr,
               .many = !job.grammar || params.follows_edges,
               .loops = grant.loops};
  if (grant.edge) {
    permit.from = grant.edge->from;
    permit.token = grant.edge->token;
  }
  order(permit);
}

/// Everything that is there. False: nothing was.
bool ResidentScheduler::take_in_news(std::vector<driver::Outcome>& outcomes) {
  News news;
  bool has_any = false, may_end = false;
  std::uint64_t steps = 0;
  while (is_running_ && mail_->news_reader.try_pop(news)) {
    has_any = true;
    last_step_ = driver::Clock::now();
    switch (news.kind) {
      case News::Kind::row:
        may_end |= news.row.ending != Ending::none || may_stop(news.entry);
        take_in_row(news, outcomes);
        break;
      case News::Kind::step:
        take_in_step(news);
        if (++steps > 1) ++steps_late_;
        break;
      case News::Kind::cancelled:
        if (occupants_[news.entry].id == news.id) release(news.entry);
        break;
      case News::Kind::forgotten:
        has_ordered_forget_ = false;
        masks_.forget_edges();
        break;
      case News::Kind::ended:
        end_loop(news.end);
        break;
    }
  }
  if (may_end || last_step_ - last_look_ > kSuspicious) check_results();
  return has_any;
}

/// Whether the text of a reply may end it.
bool ResidentScheduler::may_stop(std::uint32_t entry) const {
  const driver::JobPtr& job = occupants_[entry].job;
  return job && job->text && job->text->may_stop();
}

void ResidentScheduler::take_in_row(const News& news, std::vector<driver::Outcome>& outcomes) {
  std::optional<llm::TokenLogprob> logprob;
  if (news.row.has_tops) {
    Sampled tops;
    mail_->tops_reader.try_pop(tops);  // pushed before the row
    logprob = logprob_of(news.row.token, tops);
  }
  Occupant& occupant = occupants_[news.entry];
  if (occupant.id != news.id) return;
  if (const driver::JobPtr job = occupant.job; !occupant.is_removed) {
    driver::Outcome outcome = outcome_of(job, news.row.token, news.row.ending, news.row.position);
    outcome.at = last_step_;
    outcome.cached_tokens = job->cached_tokens = news.row.cached_tokens;
    if (outcome.token >= 0 && job->wants_logprobs)
      outcome.logprob =
          logprob
              ? std::move(logprob)
              : llm::TokenLogprob{.token = news.row.token, .logprob = news.row.logprob, .top = {}};
    outcomes.push_back(std::move(outcome));
    if (job->grammar && news.row.ending == Ending::none)
      masks_.advance(job, news.row.token, news.row.mask);
  }
  if (news.row.ending != Ending::none) release(news.entry);
}

void ResidentScheduler::take_in_step(const News& news) {
  llm::StepRecord record = record_of(limits_, options_.graphs, news.step);
  // The device's clock has another origin, so the first step of a launch is timed by the host's.
  record.microseconds = last_step_at_ == 0 ? driver::seconds_between(launched_, last_step_) * 1e6
                                           : static_cast<double>(news.at - last_step_at_) / 1e3;
  last_step_at_ = news.at;
  record.ended = last_step_;
  log_.add(record);
  masks_.end_step();
}

/// The loop's last news come some microseconds before its end. It is waited for here, so that the
/// thread that submits the next request need not ask.
void ResidentScheduler::end_loop(resident::LoopEnd why) {
  is_running_ = false;
  if (post_) runner_->line()->end_loop();
  end_ = why;
  clock_.done(launched_);
  while (!ended_.query()) poll();
  turn_.give_back();
  if (why == resident::LoopEnd::stuck)
    throw Error("the loop on the device has requests and plans no step; this is a bug of attacca");
}

/// Throws the loop's error, if it ended by one.
void ResidentScheduler::look_for_failure() {
  last_step_ = driver::Clock::now();
  if (is_broken()) end_and_throw();
  if (ended_.query()) synchronize();
}

/// The other ranks may be in a step that this one has not ended.
void ResidentScheduler::synchronize() {
  or_give_up(runner_->line(), [&] { stream_.synchronize(); });
}

/// After a failure, such as a wait that expired, the loop goes on and its results are void. So no
/// request may end well before this was asked.
void ResidentScheduler::check_results() {
  last_look_ = driver::Clock::now();
  if (graph::state_of(stream_).impl->has_failed() || is_broken()) end_and_throw();
}

/// Cancels everything, waits for the loop and throws its error, if it has one.
void ResidentScheduler::end_and_throw() {
  for (std::uint32_t entry = 0; entry < limits_.requests; ++entry)
    if (occupants_[entry].id != 0)
      order({.kind = Order::Kind::cancel, .entry = entry, .id = occupants_[entry].id});
  if (is_broken()) post_->stop();
  synchronize();
  if (post_) runner_->line()->check();
}

/// Its errors are on their way to the driver already.
void ResidentScheduler::stop() noexcept {
  try {
    end_and_throw();
  } catch (...) {
  }
}

std::vector<driver::JobPtr> ResidentScheduler::fail_running() {
  std::vector<driver::JobPtr> failed;
  for (Occupant& occupant : occupants_)
    if (occupant.job && !occupant.is_removed) {
      occupant.job->entry = driver::Job::kNoEntry;
      failed.push_back(occupant.job);
    }
  stop();
  if (post_) runner_->line()->end_loop();
  turn_.give_back();
  past_ = loop_stats();
  clock_.drained();
  try {
    start();
  } catch (...) {  // the driver asks next whether the device still works
  }
  return failed;
}

std::size_t ResidentScheduler::bytes() const {
  const ResidentMail& mail = *mail_;
  return letters_.bytes() + prompts_.bytes() + stop_.bytes() + bias_.bytes() + masks_sent_.bytes() +
         mail.orders.capacity() * sizeof(Order) + mail.news.capacity() * sizeof(News) +
         mail.tops.capacity() * sizeof(Sampled) + mail.state_memory.bytes() +
         mail.plan_memory.bytes() + mail.cached_tokens.bytes() + mail.masks.bytes() +
         mail.params.bytes() + mail.stop.bytes() + mail.sampled.bytes() + mail.rehearsal.bytes() +
         (post_ ? post_->bytes() : 0);
}

llm::EngineStats ResidentScheduler::stats() const {
  llm::EngineStats stats = loop_stats();
  embedder_.add_to(stats);
  return stats;
}

llm::EngineStats ResidentScheduler::loop_stats() const {
  const resident::Board& board = *mail_->board.data();
  const auto read = [](const resident::Board::Word& word) { return word.load(device::relaxed); };
  std::array<std::uint64_t, llm::kMisses> misses = log_.by_miss();
  const std::uint64_t hits = std::exchange(misses[0], 0);
  return {.requests_running = static_cast<std::uint32_t>(read(board.running)),
          .requests_waiting = read(board.waiting),
          .pages_in_use = static_cast<std::uint32_t>(read(board.pages_in_use)),
          .pages_cached = static_cast<std::uint32_t>(read(board.pages_cached)),
          .steps = past_.steps + read(board.steps),
          .steps_ahead = past_.steps_ahead + read(board.ahead),
          .tokens_prefilled = past_.tokens_prefilled + read(board.prefilled),
          .tokens_decoded = past_.tokens_decoded + read(board.decoded),
          .tokens_voided = past_.tokens_voided + read(board.voided),
          .tokens_from_cache = past_.tokens_from_cache + read(board.shared),
          .tokens_padded = past_.tokens_padded + read(board.padding),
          .steps_by_mode = log_.by_mode(),
          .graph_hits = hits,
          .graph_misses = misses,
          .preemptions = past_.preemptions + read(board.preemptions),
          .evictions = past_.evictions + read(board.evictions),
          .launches = launches_,
          .pauses = past_.pauses + read(board.pauses),
          .steps_late = steps_late_,
          .masks_followed = masks_.followed(),
          .masks_awaited = masks_.awaited(),
          .seconds_busy = clock_.seconds_busy(),
          .seconds_idle = clock_.seconds_idle(),
          .seconds_overlapped = clock_.seconds_overlapped()};
}

}  // namespace attacca::engine
