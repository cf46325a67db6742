// engine_core.cpp: the engine's loop: it admits requests, plans, launches, waits, commits and hands
// out text. Requests are checked and translated in request.cpp.
#include "engine/engine_core.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/coverage.hpp"
#include "engine/request.hpp"
#include "schedule/step.hpp"

namespace attacca::llm::detail {

namespace {

using engine::seconds_between;

TokenLogprob logprob_of(std::int32_t token, const kernels::Sampled& sampled) {
  TokenLogprob entry{.token = token, .logprob = sampled.logprob, .top = {}};
  for (std::uint32_t i = 0; i < sampled.tops; ++i)
    entry.top.emplace_back(sampled.top_token[i], sampled.top_logprob[i]);
  return entry;
}

}  // namespace

EngineCore::EngineCore(std::shared_ptr<const ModelData> model, const EngineOptions& options,
                       const Progress& progress)
    : model_(std::move(model)), options_(options), log_(options.step_log) {
  const ModelData& data = *model_;
  limits_ = engine::size_engine(data.checkpoint, options_);
  runner_ = std::make_unique<engine::StepRunner>(
      data.config(),
      model::Weights(data.checkpoint, options_.device, progress,
                     options_.weights == WeightFormat::fp8 ? model::WeightFormat::fp8
                                                           : model::WeightFormat::as_stored),
      options_.device, engine::setup_of(limits_, options_), progress);
  state_memory_.resize(schedule::state_bytes(limits_) / sizeof(schedule::Line));
  state_ = schedule::bind_state(limits_, runner_->plan(), state_memory_.data());
  schedule::reset(state_);
  job_of_entry_.resize(limits_.requests);
}

EngineCore::Job EngineCore::job_of(const Request& request) const {
  Job job;
  job.submitted = Clock::now();
  job.prompt = engine::prompt_of(request, *model_);
  if (job.prompt.empty()) throw BadArgument("the prompt has no tokens; give it some text");
  if (request.max_tokens == 0)
    throw BadArgument("max_tokens is 0; ask for at least one token, or use score");
  const std::size_t room = engine::most_tokens(limits_);
  if (job.prompt.size() >= room)
    throw BadArgument(fmt::format(
        "the prompt has {} tokens, and a sequence may have {}; shorten it, or start the engine "
        "with a larger context or more pages",
        job.prompt.size(), room));
  job.max_new = std::min(request.max_tokens, room - job.prompt.size());
  job.sampling = engine::sampling_of(request, model_->config());
  job.sampling.params.last_position =
      static_cast<std::int32_t>(job.prompt.size() + job.max_new - 1);
  job.wants_logprobs = request.logprobs.has_value();
  job.on_text = request.on_text;
  job.on_done = request.on_done;
  if (model_->tokenizer || !request.stop.empty())  // stop strings need a tokenizer
    job.text =
        std::make_unique<engine::TextStream>(model_->require_tokenizer(), job.prompt, request.stop);
  job.reply.prompt_tokens = job.prompt.size();
  return job;
}

Reply EngineCore::generate(const Request& request) {
  std::vector<Job> jobs;
  jobs.push_back(job_of(request));
  run(jobs);
  return std::move(jobs.front().reply);
}

std::vector<Reply> EngineCore::generate(std::span<const Request> requests) {
  std::vector<Job> jobs;
  jobs.reserve(requests.size());
  for (const Request& request : requests) {
    try {
      jobs.push_back(job_of(request));
    } catch (const BadArgument& error) {
      Job& refused = jobs.emplace_back();
      refused.submitted = Clock::now();
      refused.on_done = request.on_done;
      refused.reply.error = error.what();
      finish(refused, Finish::failed);
    }
  }
  run(jobs);
  std::vector<Reply> replies;
  for (Job& job : jobs) replies.push_back(std::move(job.reply));
  return replies;
}

std::vector<TokenLogprob> EngineCore::score(std::span<const std::int32_t> tokens) {
  if (tokens.size() < 2)
    throw BadArgument(fmt::format("{} tokens to score; give at least 2", tokens.size()));
  if (tokens.size() > engine::most_tokens(limits_))
    throw BadArgument(fmt::format("{} tokens to score, and a sequence may have {}; score pieces",
                                  tokens.size(), engine::most_tokens(limits_)));
  std::vector<Job> jobs(1);
  jobs[0].prompt = engine::prompt_of({.tokens = {tokens.begin(), tokens.end()}}, *model_);
  jobs[0].is_score = true;
  jobs[0].wants_logprobs = true;
  jobs[0].sampling.params.wants_logprob = true;
  run(jobs);
  return std::move(jobs[0].reply.logprobs);
}

void EngineCore::run(std::vector<Job>& jobs) {
  next_job_ = 0;
  try {
    do {
      admit(jobs);
    } while (step() || next_job_ < jobs.size());
    log_.flush();
  } catch (...) {
    drop(jobs);
    throw;
  }
}

void EngineCore::admit(std::vector<Job>& jobs) {
  for (; next_job_ < jobs.size(); ++next_job_) {
    Job& job = jobs[next_job_];
    if (job.is_done) continue;  // refused
    const std::uint32_t entry = schedule::reserve(state_);
    if (entry == schedule::kNone) return;
    schedule::Request& request = state_.entries[entry].request;
    request = {.id = next_id_++,
               .prompt = static_cast<std::uint32_t>(job.prompt.size()),
               .max_new = static_cast<std::uint32_t>(job.max_new),
               .wants_all_logits = job.is_score};
    std::copy(job.prompt.begin(), job.prompt.end(), state_.history(entry));
    const std::string problem = schedule::why_refused(limits_, request);
    schedule::admit(state_, entry);
    if (!problem.empty()) throw BadArgument(problem);
    job_of_entry_[entry] = &job;
  }
}

/// Runs one step to its end. If the next step can be planned already, launches it right behind.
bool EngineCore::step() {
  const engine::StepClock::Running running(clock_);
  if (launched_.empty() && !launch_next()) return false;
  if (options_.overlap) launch_next();
  wait_for_oldest();
  schedule::commit_step(state_, sampled_);
  for (std::uint32_t at = 0; at < state_.event_count; ++at) take_in(state_.events[at]);
  return true;
}

/// False: there is nothing to plan, at least until the step in flight is committed.
bool EngineCore::launch_next() {
  schedule::plan_step(state_);
  const schedule::Counts& counts = *runner_->plan().counts;
  if (counts.tokens == 0) return false;
  prepare_placed_slots();
  runner_->launch();
  launched_.push_back({record_of(counts), clock_.launched()});
  return true;
}

void EngineCore::wait_for_oldest() {
  clock_.waiting();
  sampled_ = runner_->wait();
  auto [record, began] = launched_.front();
  launched_.pop_front();
  record.microseconds = clock_.done(began) * 1e6;
  log_.add(record);
}

StepRecord EngineCore::record_of(const schedule::Counts& counts) const {
  StepRecord record{.is_decode = counts.is_decode != 0,
                    .mode = engine::mode_of(limits_, options_.graphs, counts.graph),
                    .tokens = counts.tokens,
                    .rows = counts.rows};
  if (counts.graph == schedule::kNone) {
    record.miss = engine::miss_of(limits_, options_.graphs, counts.tokens, record.is_decode);
  } else {
    record.size = limits_.graph_tokens(counts.graph);
    record.padding = record.size - record.tokens;
  }
  return record;
}

void EngineCore::prepare_placed_slots() {
  const schedule::Plan& plan = runner_->plan();
  for (std::uint32_t at = 0; at < plan.counts->placed; ++at) {
    const auto slot = static_cast<std::uint32_t>(plan.placed[at]);
    const std::uint32_t entry = state_.slots[slot].entry;
    Job& job = *job_of_entry_[entry];
    const schedule::Entry& e = state_.entries[entry];
    // Cached tokens count only on first placement: a preempted request finds its own pages again.
    if (e.known() == e.request.prompt) job.reply.cached_tokens = e.computed - e.planned;
    runner_->slots().place(slot, job.sampling, {state_.history(entry), e.known()},
                           e.request.prompt);
  }
}

void EngineCore::take_in(const schedule::Event& event) {
  Job& job = *job_of_entry_[event.entry];
  if (job.is_done) return;  // ended by an earlier row of this step
  if (event.ending == Ending::not_finite) return fail(job, event);
  if (event.token >= 0) {
    if (job.wants_logprobs)
      job.reply.logprobs.push_back(logprob_of(event.token, sampled_[event.row]));
    if (!job.is_score) {
      if (job.reply.tokens.empty())
        job.reply.seconds_to_first_token = seconds_between(job.submitted, Clock::now());
      job.reply.tokens.push_back(event.token);
      if (job.text && event.ending != Ending::stop_token) emit(job, job.text->push(event.token));
    }
  }
  if (job.is_done) {
    schedule::cancel(state_, event.entry, event.id);
  } else if (event.ending != Ending::none) {
    if (job.text) emit(job, job.text->finish());
    if (!job.is_done)
      finish(job, event.ending == Ending::stop_token ? Finish::stop : Finish::length);
  }
}

/// Ends a job whose logits are not finite. It keeps the tokens generated so far.
void EngineCore::fail(Job& job, const schedule::Event& event) {
  const std::string error = fmt::format(
      "the model's logits for position {} are infinite or not numbers; its weights, or what this "
      "device makes of them, are broken: try another file or another device",
      event.position);
  if (job.is_score) throw Error(error);
  if (job.text) emit(job, job.text->finish());
  if (job.is_done) return;
  job.reply.error = error;
  finish(job, Finish::failed);
}

/// Hands out text. Finishes the job at a stop string, or when `on_text` returns false.
void EngineCore::emit(Job& job, std::string text) {
  job.reply.text += text;
  const bool goes_on = text.empty() || !job.on_text || job.on_text(text);
  if (!goes_on)
    finish(job, Finish::cancelled);
  else if (job.text->is_stopped())
    finish(job, Finish::stop);
}

void EngineCore::finish(Job& job, Finish how) {
  job.is_done = true;
  job.reply.finish = how;
  job.reply.seconds = seconds_between(job.submitted, Clock::now());
  if (job.on_done) job.on_done(job.reply);
}

/// After a failure, removes every trace of these jobs from the engine.
void EngineCore::drop(std::vector<Job>& jobs) {
  runner_->drain();
  clock_.drained();
  launched_.clear();
  for (std::uint32_t entry = 0; entry < limits_.requests; ++entry) {
    const Job* job = job_of_entry_[entry];
    if (job >= jobs.data() && job < jobs.data() + jobs.size())
      schedule::cancel(state_, entry, state_.entries[entry].request.id);
  }
  while (state_.in_flight > 0) schedule::commit_step(state_, sampled_);  // every part is void
}

EngineMemory EngineCore::memory() const {
  const model::Weights& weights = runner_->weights();
  EngineMemory memory;
  memory.weights_mapped = weights.bytes_mapped();
  memory.weights_copied = weights.bytes_copied();
  memory.arena = runner_->arena_bytes();
  memory.step = runner_->step_bytes() + schedule::state_bytes(limits_);
  memory.graphs = runner_->graph_bytes();
  memory.graphs_device = runner_->graph_device_bytes();
  memory.kv = runner_->kv_bytes();
  memory.pages = limits_.pages;
  memory.weights_per_step = weights.bytes_mapped() + weights.bytes_copied();
  if (weights.head.data != weights.embedding.data)
    memory.weights_per_step -= weights.embedding.bytes();
  memory.kv_per_token = memory.kv / limits_.pages / limits_.page_size;
  return memory;
}

EngineStats EngineCore::stats() const {
  const schedule::Statistics& s = state_.statistics;
  std::array<std::uint64_t, kMisses> misses = log_.by_miss();
  const std::uint64_t hits = std::exchange(misses[0], 0);
  return {.steps = s.steps,
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
          .seconds_busy = clock_.seconds_busy(),
          .seconds_idle = clock_.seconds_idle(),
          .seconds_overlapped = clock_.seconds_overlapped()};
}

std::vector<GraphCoverage> EngineCore::coverage() const {
  return engine::coverage_of(limits_, options_.graphs);
}

}  // namespace attacca::llm::detail
