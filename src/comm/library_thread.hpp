// library_thread.hpp: a thread for calls of a library that wait for all ranks and know no deadline,
// such as its start. One that does not return is left behind.
#pragma once

#include <attacca/ranks.hpp>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "comm/group.hpp"

namespace attacca::comm {

/// All calls run in the same thread, in which the device is the current one.
class LibraryThread {
 public:
  /// `control`: whose ranks the calls wait for.
  LibraryThread(std::shared_ptr<GroupImpl> control, const Device& device);
  /// A call that was left behind may still run.
  ~LibraryThread();
  LibraryThread(const LibraryThread&) = delete;

  /// Runs `work` to its end, and throws what it throws. Throws RanksBroken once the program is
  /// broken, and breaks it at the deadline; `work` may then still run, so it owns what it uses. It
  /// is destroyed in the thread. `what`: for that message, "NCCL's start".
  void run(const std::string& what, std::function<void()> work);
  /// The last call: at the deadline it is left behind, and nobody is told.
  void run_last(std::function<void()> work) { (void)ends_in_time(std::move(work)); }

 private:
  struct State;

  bool ends_in_time(std::function<void()> work);

  const std::shared_ptr<GroupImpl> control_;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace attacca::comm
