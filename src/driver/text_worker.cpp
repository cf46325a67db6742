// text_worker.cpp: outcomes of steps become events.
#include "driver/text_worker.hpp"

#include <iterator>
#include <utility>

#include "core/thread_name.hpp"

namespace attacca::driver {

using llm::Finish;
using llm::RequestEvent;

TextWorker::TextWorker(std::shared_ptr<Inbox> inbox)
    : inbox_(std::move(inbox)), thread_([this] { run(); }) {}

TextWorker::~TextWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void TextWorker::send(std::vector<Outcome> outcomes) {
  if (outcomes.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (sent_.empty())
      sent_ = std::move(outcomes);
    else
      sent_.insert(sent_.end(), std::move_iterator(outcomes.begin()),
                   std::move_iterator(outcomes.end()));
  }
  arrived_.notify_one();
}

void TextWorker::run() {
  name_this_thread("attacca-text");
  std::vector<Outcome> outcomes;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return !sent_.empty() || is_ending_; });
      if (sent_.empty()) return;
      outcomes = std::exchange(sent_, {});
    }
    for (Outcome& outcome : outcomes) take_in(outcome);
    outcomes.clear();  // what their callbacks captured may go now
  }
}

void TextWorker::take_in(Outcome& outcome) {
  Job& job = *outcome.job;
  if (job.is_over) return;  // ended by its text, or by its receiver
  RequestEvent event{
      .token = outcome.token,
      .text = {},
      .logprob = std::move(outcome.logprob),
      .finish = outcome.finish,
      .error = std::move(outcome.error),
      .cached_tokens = outcome.cached_tokens,
      .seconds = seconds_between(job.submitted, outcome.at),
      .seconds_waiting = seconds_between(job.submitted, job.placed.value_or(outcome.at)),
      .embedding = std::move(outcome.embedding)};
  if (job.text) {
    if (outcome.token >= 0 && outcome.finish != Finish::stop)
      event.text = job.text->push(outcome.token);
    if (outcome.finish) event.text += job.text->finish();
    if (job.text->is_stopped() && event.finish != Finish::failed) event.finish = Finish::stop;
  }
  const bool has_ended = event.finish.has_value();
  const bool goes_on = job.sink->deliver(std::move(event), std::move(outcome.failure));
  if (goes_on && !has_ended) return;
  job.is_over = true;
  if (!outcome.finish) inbox_->cancel(outcome.job);
}

}  // namespace attacca::driver
