// receiver.cpp: turns the events of a request into its reply and the calls of its callbacks.
#include "driver/receiver.hpp"

#include <utility>

namespace attacca::driver {

namespace {

class CollectingSink final : public Sink {
 public:
  CollectingSink(std::shared_ptr<Collector> collector, std::size_t job)
      : collector_(std::move(collector)), job_(job) {}

  bool deliver(llm::RequestEvent event, std::exception_ptr failure) override {
    collector_->add({job_, std::move(event), std::move(failure)});
    return true;
  }

 private:
  std::shared_ptr<Collector> collector_;
  std::size_t job_;
};

}  // namespace

Receiver::Receiver(const llm::Request& request, std::size_t prompt_tokens)
    : on_text_(request.on_text), on_event_(request.on_event), on_done_(request.on_done) {
  reply_.prompt_tokens = prompt_tokens;
}

bool Receiver::take(llm::RequestEvent event) {
  if (is_done_) return false;
  if (event.token >= 0) {
    if (reply_.tokens.empty()) reply_.seconds_to_first_token = event.seconds;
    reply_.tokens.push_back(event.token);
  }
  reply_.text += event.text;
  reply_.cached_tokens = event.cached_tokens;
  reply_.seconds_waiting = event.seconds_waiting;
  if (on_event_) on_event_(event);
  if (event.logprob) reply_.logprobs.push_back(std::move(*event.logprob));
  if (!event.embedding.empty()) reply_.embedding = std::move(event.embedding);
  if (on_text_ && !event.text.empty() && !on_text_(event.text)) {
    end(llm::Finish::cancelled, event.seconds);
  } else if (event.finish) {
    reply_.error = std::move(event.error);
    end(*event.finish, event.seconds);
  }
  return !is_done_;
}

void Receiver::fail(const std::string& error) {
  if (is_done_) return;
  reply_.error = error;
  try {
    end(llm::Finish::failed, reply_.seconds);
  } catch (...) {  // `on_done`; the reply has an error already
  }
}

void Receiver::end(llm::Finish finish, double seconds) {
  is_done_ = true;
  reply_.finish = finish;
  reply_.seconds = seconds;
  if (on_done_) on_done_(reply_);
}

std::shared_ptr<Sink> Collector::sink_of(std::shared_ptr<Collector> collector, std::size_t job) {
  return std::make_shared<CollectingSink>(std::move(collector), job);
}

void Collector::add(Collected collected) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(collected));
  }
  arrived_.notify_one();
}

Collector::Collected Collector::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !events_.empty(); });
  Collected first = std::move(events_.front());
  events_.pop_front();
  return first;
}

}  // namespace attacca::driver
