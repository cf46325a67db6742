// wire.cpp: MPI as a wire. MPI is asked for serialized threads, which the mutex of the World gives
// it. A thread of its own starts and ends MPI, so both have a deadline too.
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <fmt/core.h>
#include <attacca/mpi.hpp>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/group.hpp"
#include "comm/process/group.hpp"

namespace attacca::comm {

namespace {

std::string error_text(int result) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int result, const char* call) {
  if (result != MPI_SUCCESS) throw WireError(fmt::format("{}: {}", call, error_text(result)));
}

/// Asked when the program runs: its MPI library may be another than the one it was built with.
bool is_cuda_aware() {
#ifdef MPIX_CUDA_AWARE_SUPPORT  // then there is the function too
  return MPIX_Query_cuda_support() != 0;
#else
  return false;
#endif
}

static_assert(sizeof(MPI_Request) <= sizeof(Request::handle));
Request pack(MPI_Request request) {
  Request packed;
  std::memcpy(&packed.handle, &request, sizeof request);
  return packed;
}
MPI_Request unpack(const Request& packed) {
  MPI_Request request;
  std::memcpy(&request, &packed.handle, sizeof request);
  return request;
}

class MpiWire final : public Wire {
 public:
  /// Throws RanksBroken if MPI has not started within the deadline.
  explicit MpiWire(std::chrono::nanoseconds deadline) {
    std::thread([life = life_] { run_mpi(*life); }).detach();
    std::unique_lock lock(life_->mutex);
    if (!life_->changed.wait_for(lock, deadline, [&] { return life_->has_started; }))
      throw RanksBroken(fmt::format(
          "MPI has not started within {:.3g} s, so a process of this program did not come; see the "
          "launcher's output",
          std::chrono::duration<double>(deadline).count()));
    if (!life_->problem.empty()) throw RanksBroken("MPI did not start: " + life_->problem);
    all_ = life_->all;
    MPI_Comm_rank(all_, &rank_);
    MPI_Comm_size(all_, &size_);
    int* bound = nullptr;
    int is_set = 0;
    MPI_Comm_get_attr(all_, MPI_TAG_UB, &bound, &is_set);
    if (is_set) highest_tag_ = *bound;
  }

  const char* name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int highest_tag() const override { return highest_tag_; }
  /// Open MPI's limit in shared memory is 4096 with its header.
  std::size_t most_at_once() const override { return 4000; }
  bool takes_gpu_memory() const override { return is_cuda_aware(); }

  Request send(int peer, int tag, const std::byte* data, std::size_t bytes) override {
    MPI_Request request;
    check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, all_, &request),
          "MPI_Isend");
    return pack(request);
  }
  Request receive(int peer, int tag, std::byte* data, std::size_t bytes) override {
    MPI_Request request;
    check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, all_, &request),
          "MPI_Irecv");
    return pack(request);
  }
  bool is_done(Request& packed) override {
    MPI_Request request = unpack(packed);
    int is_done = 0;
    check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    packed = pack(request);
    return is_done != 0;
  }
  bool is_gone(int) const override { return false; }  // MPI does not say

  std::string end(Request* receives, std::size_t count,
                  std::chrono::nanoseconds deadline) override {
    for (std::size_t at = 0; at < count; ++at) {
      MPI_Request request = unpack(receives[at]);
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&all_);
    std::unique_lock lock(life_->mutex);
    life_->must_end = true;
    life_->changed.notify_all();
    if (life_->changed.wait_for(lock, deadline, [&] { return life_->has_ended; })) return {};
    return "MPI_Finalize does not return";
  }

 private:
  /// Shared with the thread that runs MPI, which may outlive this if MPI does not return.
  struct Life {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_started = false;
    bool must_end = false;
    bool has_ended = false;
    std::string problem;
    MPI_Comm all = MPI_COMM_NULL;
  };

  static std::string start(MPI_Comm& all) {
    int is_initialized = 0, provided = 0;
    MPI_Initialized(&is_initialized);
    if (is_initialized) return "the program has started MPI itself";
    if (const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
        result != MPI_SUCCESS)
      return "MPI_Init_thread: " + error_text(result);
    if (provided < MPI_THREAD_SERIALIZED) return "this MPI library does not support threads";
    if (const int result = MPI_Comm_dup(MPI_COMM_WORLD, &all); result != MPI_SUCCESS)
      return "MPI_Comm_dup: " + error_text(result);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    return {};
  }
  static void run_mpi(Life& life) {
    MPI_Comm all = MPI_COMM_NULL;
    std::string problem = start(all);
    std::unique_lock lock(life.mutex);
    life.all = all;
    life.problem = std::move(problem);
    life.has_started = true;
    life.changed.notify_all();
    life.changed.wait(lock, [&] { return life.must_end; });
    lock.unlock();
    MPI_Finalize();
    lock.lock();
    life.has_ended = true;
    life.changed.notify_all();
  }

  std::shared_ptr<Life> life_ = std::make_shared<Life>();
  MPI_Comm all_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int highest_tag_ = 32767;
};

}  // namespace
}  // namespace attacca::comm

namespace attacca {

bool has_mpi() { return true; }

std::string describe_mpi() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return fmt::format("{} ({})", all.substr(0, all.find_first_of(",\n")),
                     comm::is_cuda_aware()
                         ? "CUDA-aware: memory of GPUs goes directly on streams, staged in graphs"
                         : "not CUDA-aware, so memory of GPUs is staged");
}

Group join_mpi(const RanksOptions& options) {
  comm::check_options(options);
  static std::atomic<bool> was_called{false};
  if (was_called.exchange(true))
    throw BadArgument("join_mpi was called before; keep the group that it returned");
  return comm::group_of_processes(std::make_unique<comm::MpiWire>(options.deadline), options);
}

}  // namespace attacca
