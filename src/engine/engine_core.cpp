// engine_core.cpp: builds an engine, and turns calls into jobs and events into replies. Requests
// are checked and translated in request.cpp.
#include "engine/engine_core.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/coverage.hpp"
#include "engine/host_scheduler.hpp"
#include "engine/request.hpp"
#include "engine/resident_scheduler.hpp"
#include "engine/text_stream.hpp"

namespace attacca::llm::detail {

using driver::Collector;
using driver::Job;
using driver::JobPtr;
using driver::Receiver;

EngineCore::EngineCore(std::shared_ptr<const ModelData> model, const EngineOptions& options,
                       const Progress& progress)
    : model_(std::move(model)),
      options_(options),
      part_(engine::agree_as_first(*model_, options_)),
      limits_(part_.limits) {
  if (options_.device_records > 0) records_.emplace(options_.device, options_.device_records);
  engine::StepSetup setup = engine::setup_of(limits_, options_);
  setup.exchanges = part_.exchanges;
  if (records_) setup.records = records_->ref();
  auto runner = engine::make_runner(*model_, part_.config, options_, setup, progress);
  if (model_->tokenizer)
    runner->slots().set_plain_tokens(
        grammar::plain_tokens(*model_->tokenizer, model_->config().vocabulary));
  runner_ = runner.get();
  if (options_.scheduler == Scheduler::resident) {
    auto resident = std::make_unique<engine::ResidentScheduler>(std::move(runner), limits_,
                                                                options_, setup.records, progress);
    offer_sizes_ = [to = resident.get()](const schedule::Limits& limits) { to->offer(limits); };
    explain_ = [of = resident.get()](const schedule::Limits& limits) {
      return of->explain(limits);
    };
    scheduler_ = std::move(resident);
  } else {
    auto host = std::make_unique<engine::HostScheduler>(std::move(runner), limits_, options_);
    offer_sizes_ = [to = host.get(), this](const schedule::Limits& limits) {
      to->offer(runner_->build_graphs(limits));
    };
    scheduler_ = std::move(host);
  }
  memory_ = measure();
  text_ = std::make_unique<driver::TextWorker>(inbox_);
  driver_ = std::make_unique<driver::Driver>(inbox_, *scheduler_, *text_);
  if (options_.ranks)
    runner_->line()->tell_of_failure([inbox = inbox_](std::exception_ptr failure) {
      inbox->tell_of_failure(std::move(failure));
    });
}

namespace {

void set_priority_and_deadline(Job& job, const Request& request) {
  job.priority = engine::priority_of(request);
  job.deadline = request.deadline;
  if (job.deadline && *job.deadline <= job.submitted)
    throw BadArgument(fmt::format(
        "the deadline passed {:.3f} s before the request was submitted; give a later one",
        driver::seconds_between(*job.deadline, job.submitted)));
}

}  // namespace

JobPtr EngineCore::job_of(const Request& request) const {
  if (request.embed != Pooling::none) return embedding_job_of(request);
  auto job = std::make_shared<Job>();
  job->id = ++last_id_;
  job->prompt = engine::prompt_of(request, *model_);
  if (job->prompt.empty()) throw BadArgument("the prompt has no tokens; give it some text");
  if (request.max_tokens == 0)
    throw BadArgument("max_tokens is 0; ask for at least one token, or use score");
  const std::size_t room = engine::most_tokens(limits_);
  if (job->prompt.size() >= room)
    throw BadArgument(fmt::format("the prompt has {} tokens, and a sequence may have {}; {}",
                                  job->prompt.size(), room, remedy_for_length()));
  job->max_new = std::min(request.max_tokens, room - job->prompt.size());
  job->sampling = engine::sampling_of(request, model_->config());
  job->sampling.params.last_position =
      static_cast<std::int32_t>(job->prompt.size() + job->max_new - 1);
  add_grammar(*job, request);
  job->wants_logprobs = request.logprobs.has_value();
  set_priority_and_deadline(*job, request);
  if (model_->tokenizer || !request.stop.empty())  // stop strings need a tokenizer
    job->text = std::make_unique<engine::TextStream>(model_->require_tokenizer(), job->prompt,
                                                     request.stop);
  return job;
}

const char* EngineCore::remedy_for_length() const {
  return engine::most_tokens(limits_) >= model_->config().context
             ? "shorten it: that is the model's context"
             : "shorten it, or start the engine with a larger context or more pages";
}

JobPtr EngineCore::embedding_job_of(const Request& request) const {
  if (request.embed != Pooling::last && request.embed != Pooling::mean)
    throw BadArgument(fmt::format("pooling {}; use last or mean", static_cast<int>(request.embed)));
  if (options_.ranks && options_.scheduler == Scheduler::resident)
    throw BadArgument(
        "the resident scheduler of a model that is split over ranks computes no embeddings; use "
        "the host's scheduler");
  auto job = std::make_shared<Job>();
  job->id = ++last_id_;
  job->prompt = engine::prompt_of(request, *model_);
  if (job->prompt.empty()) throw BadArgument("the prompt has no tokens; give it some text");
  if (job->prompt.size() > engine::most_tokens(limits_))
    throw BadArgument(fmt::format("{} tokens to embed, and a sequence may have {}; {}",
                                  job->prompt.size(), engine::most_tokens(limits_),
                                  remedy_for_length()));
  job->pooling = request.embed;
  set_priority_and_deadline(*job, request);
  return job;
}

void EngineCore::add_grammar(Job& job, const Request& request) const {
  if (request.grammar == Grammar()) return;
  if (request.ignores_end)
    throw BadGrammar("a grammar ends with the model's end token; do not ignore the end");
  if (job.sampling.allowed)
    throw BadGrammar("a request has a grammar and a list of allowed tokens; give one of them");
  job.grammar = grammars_.start(request.grammar);
  job.sampling.allowed = job.grammar->allowed();
  job.sampling.params.follows_edges = true;
  job.sampling.loops = job.grammar->loops_on_plain();
}

JobPtr EngineCore::score_job_of(std::span<const std::int32_t> tokens) const {
  if (tokens.size() < 2)
    throw BadArgument(fmt::format("{} tokens to score; give at least 2", tokens.size()));
  if (tokens.size() > engine::most_tokens(limits_))
    throw BadArgument(fmt::format("{} tokens to score, and a sequence may have {}; score pieces",
                                  tokens.size(), engine::most_tokens(limits_)));
  auto job = std::make_shared<Job>();
  job->id = ++last_id_;
  job->prompt = engine::prompt_of({.tokens = {tokens.begin(), tokens.end()}}, *model_);
  job->is_score = true;
  job->wants_logprobs = true;
  job->sampling.params.wants_logprob = true;
  return job;
}

std::shared_ptr<TicketCore> EngineCore::submit(const Request& request) {
  const JobPtr job = job_of(request);
  auto ticket = std::make_shared<TicketCore>(request, *job, inbox_);
  ticket->belongs_to(job);
  job->sink = ticket;
  inbox_->submit({&job, 1});
  return ticket;
}

Reply EngineCore::generate(const Request& request) {
  const JobPtr job = job_of(request);
  std::vector<Receiver> receivers;
  receivers.emplace_back(request, job->prompt.size());
  run({&job, 1}, receivers);
  return std::move(receivers.front().reply());
}

std::vector<Reply> EngineCore::generate(std::span<const Request> requests) {
  std::vector<JobPtr> jobs;
  std::vector<Receiver> receivers;
  for (const Request& request : requests) {
    try {
      jobs.push_back(job_of(request));
      receivers.emplace_back(request, jobs.back()->prompt.size());
    } catch (const BadArgument& error) {
      jobs.push_back(nullptr);
      receivers.emplace_back(request, 0);
      receivers.back().take({.finish = Finish::failed, .error = error.what()});
    }
  }
  run(jobs, receivers);
  std::vector<Reply> replies;
  for (Receiver& receiver : receivers) replies.push_back(std::move(receiver.reply()));
  return replies;
}

void EngineCore::run(std::span<const JobPtr> jobs, std::vector<Receiver>& receivers) {
  refuse_callback_thread();
  const auto events = std::make_shared<Collector>();
  std::vector<JobPtr> submitted;
  for (std::size_t at = 0; at < jobs.size(); ++at) {
    if (receivers[at].is_done()) continue;
    jobs[at]->sink = Collector::sink_of(events, at);
    submitted.push_back(jobs[at]);
  }
  inbox_->submit(submitted);
  try {
    for (std::size_t open = submitted.size(); open > 0;) {
      Collector::Collected next = events->next();
      Receiver& receiver = receivers[next.job];
      if (receiver.is_done()) continue;  // it has had enough
      if (next.failure) std::rethrow_exception(next.failure);
      const bool is_last = next.event.finish.has_value();
      if (receiver.take(std::move(next.event))) continue;
      --open;
      if (!is_last) inbox_->cancel(jobs[next.job]);
    }
  } catch (...) {
    for (const JobPtr& job : submitted) inbox_->cancel(job);
    throw;
  }
}

std::vector<TokenLogprob> EngineCore::score(std::span<const std::int32_t> tokens) {
  refuse_callback_thread();
  const JobPtr job = score_job_of(tokens);
  const auto events = std::make_shared<Collector>();
  job->sink = Collector::sink_of(events, 0);
  inbox_->submit({&job, 1});
  std::vector<TokenLogprob> scores;
  while (true) {
    Collector::Collected next = events->next();
    if (next.failure) std::rethrow_exception(next.failure);
    if (next.event.finish == Finish::failed) throw Error(next.event.error);
    if (next.event.logprob) scores.push_back(std::move(*next.event.logprob));
    if (next.event.finish) return scores;
  }
}

/// The thread that delivers events cannot wait for some.
void EngineCore::refuse_callback_thread() const {
  if (text_->is_this_thread())
    throw Error(
        "generate and score cannot wait inside a callback of the same engine, whose thread would "
        "wait for itself; submit the request there, and wait elsewhere");
}

EngineMemory EngineCore::measure() const {
  const engine::StepRunner& runner = *runner_;
  const model::Weights& weights = runner.weights();
  EngineMemory memory;
  memory.weights_mapped = weights.bytes_mapped();
  memory.weights_copied = weights.bytes_copied();
  memory.arena = runner.arena_bytes();
  memory.step = runner.step_bytes() + scheduler_->bytes();
  const driver::Scheduler::GraphBytes loop = scheduler_->graph_bytes();
  memory.graphs = runner.graph_bytes() + loop.host;
  memory.graphs_device = runner.graph_device_bytes() + loop.device;
  memory.kv = runner.kv_bytes();
  memory.pages = limits_.pages;
  memory.weights_per_step = weights.bytes_mapped() + weights.bytes_copied();
  if (weights.head.data != weights.embedding.data)
    memory.weights_per_step -= weights.embedding.bytes();
  memory.kv_per_token = memory.kv / limits_.pages / limits_.page_size;
  return memory;
}

StepSizes EngineCore::sizes() const {
  const auto list = [](const schedule::Sizes& sizes) {
    return std::vector<unsigned>(sizes.of, sizes.of + sizes.count);
  };
  const std::lock_guard lock(sizes_mutex_);
  return {list(limits_.decode_sizes), list(limits_.mixed_sizes)};
}

void EngineCore::change_sizes(const StepSizes& sizes) {
  if (options_.ranks)
    throw BadArgument("the step sizes of a model that is split over ranks stay; start it anew");
  if (options_.graphs != GraphMode::full)
    throw BadArgument("step sizes change where graphs are full; start the engine with those");
  const std::lock_guard one_at_a_time(change_mutex_);
  const schedule::Limits next = engine::with_sizes(limits_, sizes.decode, sizes.mixed);
  offer_sizes_(next);
  const std::lock_guard lock(sizes_mutex_);
  limits_.decode_sizes = next.decode_sizes;
  limits_.mixed_sizes = next.mixed_sizes;
}

std::string EngineCore::explain_loop() const {
  const std::lock_guard lock(sizes_mutex_);
  return explain_ ? explain_(limits_) : "";
}

std::vector<GraphCoverage> EngineCore::coverage() const {
  const std::lock_guard lock(sizes_mutex_);
  return engine::coverage_of(limits_, options_.graphs);
}

}  // namespace attacca::llm::detail
