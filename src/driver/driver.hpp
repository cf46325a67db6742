// driver.hpp: the thread that owns the engine's loop. It takes in requests, cancellations and
// deadlines, gives waiting jobs to the scheduler as it has room, runs steps, and hands their
// outcomes to the text worker. It neither tokenizes nor calls callbacks.
#pragma once

#include <attacca/llm.hpp>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "driver/inbox.hpp"
#include "driver/scheduler.hpp"
#include "driver/text_worker.hpp"
#include "driver/waiting_line.hpp"

namespace attacca::driver {

class Driver {
 public:
  /// REQUIRES: scheduler and text worker outlive it.
  Driver(std::shared_ptr<Inbox> inbox, Scheduler& scheduler, TextWorker& text);
  /// Cancels all requests.
  ~Driver();

  /// As of the last step. Thread-safe.
  llm::EngineStats stats() const;

 private:
  void run();
  void begin(Inbox::Mail mail) noexcept;
  void take_in(Inbox::Mail mail);
  void expire();
  void step();
  void admit();
  void fail(const std::exception_ptr& failure);
  void end(const JobPtr& job, llm::Finish finish, const std::exception_ptr& failure = {});
  void report(const JobPtr& job, llm::Finish finish, const std::exception_ptr& failure = {});
  void end_all(llm::Finish finish, const std::exception_ptr& failure = {});
  void retire(Job& job);
  void hand_over();

  std::shared_ptr<Inbox> inbox_;
  Scheduler& scheduler_;
  TextWorker& text_;
  WaitingLine line_;
  std::multimap<Clock::time_point, JobPtr> deadlines_;  // of live jobs
  std::vector<Outcome> outcomes_;                       // not handed over yet
  std::exception_ptr begin_failure_;                    // of the newest `begin`
  std::exception_ptr lost_;                             // says that the device is lost
  std::string loss_;                                    // why
  mutable std::mutex mutex_;                            // of stats_
  llm::EngineStats stats_;
  std::thread thread_;
};

}  // namespace attacca::driver
