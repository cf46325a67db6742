// host_scheduler.cpp: plan, launch, wait, commit.
#include "engine/host_scheduler.hpp"

#include <attacca/error.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/coverage.hpp"
#include "engine/outcome.hpp"
#include "schedule/step.hpp"

namespace attacca::engine {

namespace {

// Waits for masks: while a step is in flight, and while nobody else can use the device.
constexpr std::chrono::microseconds kShort{50};
constexpr std::chrono::microseconds kLong{1000};

std::vector<float> embedding_of(const driver::Job& job) {
  const double count = job.pooling == llm::Pooling::mean ? job.prompt.size() : 1;
  std::vector<float> values;
  for (const double sum : job.pooled) values.push_back(static_cast<float>(sum / count));
  return values;
}

}  // namespace

HostScheduler::HostScheduler(std::unique_ptr<StepRunner> runner, const schedule::Limits& limits,
                             const llm::EngineOptions& options)
    : limits_(limits),
      options_(options),
      log_(options.step_log, options.on_step),
      runner_(std::move(runner)),
      state_memory_(schedule::state_bytes(limits_) / sizeof(schedule::Line)),
      state_(schedule::bind_state(limits_, runner_->plan(), state_memory_.data())),
      job_of_entry_(limits_.requests),
      turn_(options.turns),
      masks_(runner_->slots().mask_rows()) {
  schedule::reset(state_);
}

driver::Room HostScheduler::room() const {
  const bool has_slot =
      state_.waiting.count < state_.free_slots.count && state_.free_entries.count > 0;
  return {.for_generations = has_slot, .for_embeddings = has_slot};
}

bool HostScheduler::is_idle() const {
  return launched_.empty() && state_.waiting.count == 0 && state_.running.count == 0;
}

void HostScheduler::admit(driver::JobPtr job) {
  const std::uint32_t entry = schedule::reserve(state_);
  schedule::Request& request = state_.entries[entry].request;
  request = {.id = job->id,
             .prompt = static_cast<std::uint32_t>(job->prompt.size()),
             .max_new = static_cast<std::uint32_t>(job->max_new),
             .wants_all_logits = job->is_score || job->pooling == llm::Pooling::mean};
  std::copy(job->prompt.begin(), job->prompt.end(), state_.history(entry));
  if (schedule::admit(state_, entry) != schedule::Admission::done)
    throw BadArgument(schedule::why_refused(limits_, request));
  job->entry = entry;
  if (job->sampling.allowed) {
    schedule::withhold(state_, entry);
    masks_.admit(job);
  }
  job_of_entry_[entry] = std::move(job);
}

void HostScheduler::release(driver::Job& job) {
  driver::JobPtr kept = std::move(job_of_entry_[job.entry]);  // until the job is written
  job.entry = driver::Job::kNoEntry;
  masks_.release(job);
}

void HostScheduler::remove(driver::Job& job) {
  schedule::cancel(state_, job.entry, job.id);
  release(job);
}

void HostScheduler::offer(std::shared_ptr<StepRunner::Graphs> graphs) {
  const std::lock_guard lock(offer_mutex_);
  offered_ = std::move(graphs);
  has_offer_ = true;
}

/// No step is planned and not launched here, so only the next plan needs the new sizes.
void HostScheduler::take_offered_graphs() {
  std::shared_ptr<StepRunner::Graphs> graphs;
  {
    const std::lock_guard lock(offer_mutex_);
    graphs = std::move(offered_);
    has_offer_ = false;
  }
  for (schedule::Limits* limits : {&limits_, &state_.limits}) {
    limits->decode_sizes = graphs->limits().decode_sizes;
    limits->mixed_sizes = graphs->limits().mixed_sizes;
  }
  runner_->use(*graphs);
}

bool HostScheduler::step(std::vector<driver::Outcome>& outcomes) {
  if (has_offer_) take_offered_graphs();
  if (masks_.has_open()) {
    masks_.wait(patience());
    take_in_masks(outcomes);
  }
  if (launched_.empty() && !launch_next()) {
    masks_.wait(kLong);
    return masks_.has_open();
  }
  if (options_.overlap && !turn_.is_wanted()) launch_next();
  wait_for_oldest();
  schedule::commit_step(state_, sampled_);
  masks_.end_step();
  for (std::uint32_t at = 0; at < state_.event_count; ++at) {
    const schedule::Event& event = state_.events[at];
    driver::Job& job = *job_of_entry_[event.entry];
    if (job.pooling != llm::Pooling::none) {
      pool(job, event.row);
      if (event.ending == Ending::none) continue;  // of an embedding only the end is told
    }
    outcomes.push_back(outcome_of(event));
  }
  return true;
}

/// How long to wait for masks before the next step is planned. Most masks are known and come within
/// microseconds; then sequences with a grammar stay together in one step.
std::chrono::microseconds HostScheduler::patience() const {
  if (!launched_.empty()) return kShort;  // the device computes meanwhile
  if (state_.waiting.count > 0 && state_.free_slots.count > 0) return {};
  for (std::uint32_t at = 0; at < state_.running.count; ++at)
    if (state_.entries[state_.running[at]].may_sample()) return {};
  return kLong;  // nobody else waits
}

void HostScheduler::take_in_masks(std::vector<driver::Outcome>& outcomes) {
  if (launched_.empty()) masks_.end_all_steps();
  SlotMemory& slots = runner_->slots();
  for (ReplyMasks::Grant& grant : masks_.take()) {
    driver::Job& job = *grant.job;
    if (!grant.error.empty()) {
      remove(job);
      outcomes.push_back(failure_of(grant.job, std::move(grant.error)));
      continue;
    }
    const kernels::SamplingParams& params = job.sampling.params;
    if (grant.mask) slots.write_mask(params.mask, std::move(grant.mask));
    if (grant.edge) slots.write_edge(grant.edge->from, grant.edge->token, params.mask);
    if (grant.loops) slots.write_edge(params.mask, kernels::MaskEdges::kPlainTokens, params.mask);
    if (job.grammar && !params.follows_edges)
      schedule::permit_next(state_, job.entry);
    else
      schedule::permit_all(state_, job.entry);
  }
  if (!masks_.must_forget_edges()) return;
  slots.clear_edges();
  masks_.forget_edges();
}

/// False: there is nothing to plan, at least until the step in flight is committed.
bool HostScheduler::launch_next() {
  schedule::plan_step(state_);
  const schedule::Counts& counts = *runner_->plan().counts;
  if (counts.tokens == 0) return false;
  turn_.take();
  prepare_slots();
  const RowUse rows = row_use();
  runner_->launch(rows.are_kept, rows.need_logits);
  launched_.push_back({record_of(limits_, options_.graphs, counts), clock_.launched()});
  return true;
}

void HostScheduler::wait_for_oldest() {
  clock_.waiting();
  sampled_ = runner_->wait();
  auto [record, began] = launched_.front();
  launched_.pop_front();
  record.microseconds = clock_.done(began) * 1e6;
  record.ended = clock_.last_done();
  if (launched_.empty()) turn_.give_back();
  log_.add(record);
}

void HostScheduler::prepare_slots() {
  const schedule::Plan& plan = runner_->plan();
  for (std::uint32_t at = 0; at < plan.counts->prepared; ++at) {
    const auto slot = static_cast<std::uint32_t>(plan.prepared[at]);
    const std::uint32_t entry = state_.slots[slot].entry;
    driver::Job& job = *job_of_entry_[entry];
    if (at >= plan.counts->placed) {
      runner_->slots().set_mask(slot, job.sampling.params.mask);
      continue;
    }
    const schedule::Entry& e = state_.entries[entry];
    // Cached tokens count only on first placement: a preempted request finds its own pages again.
    if (e.known() == e.request.prompt) {
      job.cached_tokens = e.computed - e.planned;
      job.placed = driver::Clock::now();
    }
    runner_->slots().place(slot, job.sampling, {state_.history(entry), e.known()},
                           e.request.prompt);
  }
}

/// What the planned rows are needed for.
HostScheduler::RowUse HostScheduler::row_use() const {
  const schedule::Plan& plan = runner_->plan();
  RowUse use;
  for (std::uint32_t row = 0; row < plan.counts->rows; ++row) {
    const auto slot = static_cast<std::uint32_t>(plan.row_slots[row]);
    const driver::Job& job = *job_of_entry_[state_.slots[slot].entry];
    (job.pooling == llm::Pooling::none ? use.need_logits : use.are_kept) = true;
  }
  return use;
}

void HostScheduler::pool(driver::Job& job, std::uint32_t row) {
  const std::size_t size = runner_->hidden();
  job.pooled.resize(size);
  const float* const values = runner_->rows() + row * size;
  for (std::size_t at = 0; at < size; ++at) job.pooled[at] += values[at];
}

driver::Outcome HostScheduler::outcome_of(const schedule::Event& event) {
  const driver::JobPtr& job = job_of_entry_[event.entry];
  const bool is_embedded = event.ending == Ending::length && job->pooling != llm::Pooling::none;
  std::vector<float> embedding = is_embedded ? embedding_of(*job) : std::vector<float>();
  const bool is_finite = std::all_of(embedding.begin(), embedding.end(),
                                     [](float value) { return std::isfinite(value); });
  driver::Outcome outcome = engine::outcome_of(
      job, event.token, is_finite ? event.ending : Ending::not_finite, event.position);
  outcome.at = clock_.last_done();
  outcome.cached_tokens = job->cached_tokens;
  if (outcome.token >= 0 && job->wants_logprobs)
    outcome.logprob = logprob_of(event.token, sampled_[event.row]);
  if (is_embedded && is_finite) {
    outcome.finish = llm::Finish::stop;
    outcome.embedding = std::move(embedding);
  }
  if (event.ending == Ending::none) {
    if (job->grammar && !masks_.advance(job, event.token, sampled_[event.row].mask))
      schedule::hold(state_, event.entry);
  } else {
    release(*job);  // and so `job` is null
  }
  return outcome;
}

std::vector<driver::JobPtr> HostScheduler::fail_running() {
  runner_->drain();
  clock_.drained();
  launched_.clear();
  turn_.give_back();
  std::vector<driver::JobPtr> failed;
  while (state_.running.count > 0) {
    failed.push_back(job_of_entry_[state_.running[0]]);
    remove(*failed.back());
  }
  while (state_.in_flight > 0) schedule::commit_step(state_, sampled_);  // every part is void
  // Nobody knows which masks have reached the device.
  runner_->slots().clear_edges();
  for (const driver::JobPtr& job : masks_.start_over(job_of_entry_))
    schedule::withhold(state_, job->entry);
  return failed;
}

std::vector<driver::JobPtr> HostScheduler::remove_all() {
  std::vector<driver::JobPtr> removed;
  for (std::uint32_t entry = 0; entry < limits_.requests; ++entry) {
    if (!job_of_entry_[entry]) continue;
    removed.push_back(job_of_entry_[entry]);
    remove(*removed.back());
  }
  return removed;
}

llm::EngineStats HostScheduler::stats() const {
  const schedule::Statistics& s = state_.statistics;
  std::array<std::uint64_t, llm::kMisses> misses = log_.by_miss();
  const std::uint64_t hits = std::exchange(misses[0], 0);
  return {.requests_running = state_.running.count,
          .requests_waiting = state_.waiting.count,
          .pages_in_use = limits_.pages - state_.spare_pages(),
          .pages_cached = state_.idle_pages.count,
          .steps = s.steps,
          .steps_ahead = s.ahead,
          .tokens_prefilled = s.prefilled,
          .tokens_decoded = s.decoded,
          .tokens_voided = s.voided,
          .tokens_from_cache = s.shared,
          .tokens_padded = s.padding,
          .steps_by_mode = log_.by_mode(),
          .graph_hits = hits,
          .graph_misses = misses,
          .preemptions = s.preemptions,
          .evictions = s.evictions,
          .launches = s.steps,
          .masks_followed = masks_.followed(),
          .masks_awaited = masks_.awaited(),
          .steps_of_highest = runner_->steps_of_highest(),
          .seconds_busy = clock_.seconds_busy(),
          .seconds_idle = clock_.seconds_idle(),
          .seconds_overlapped = clock_.seconds_overlapped()};
}

}  // namespace attacca::engine
