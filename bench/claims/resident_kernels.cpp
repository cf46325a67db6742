// resident_kernels.cpp: the kernels of resident_kernels.hpp. Compiled by nvcc in a CUDA build.
#include "claims/resident_kernels.hpp"

#include "claims/launch_kernels.hpp"

namespace bench::claims {

namespace {

using attacca::Cost;
using attacca::Team;
using attacca::Thread;
using namespace attacca::device;

constexpr std::uint64_t kEchoPatience = 2'000'000'000;  // nanoseconds

ATTACCA_HD void work_on(ItemStamp& stamp, std::uint32_t turns) {
  stamp.began = now_ns();
  (void)turned(turns, turns);
  stamp.ended = now_ns();
}

struct DoOneItem {
  static constexpr const char* name = "item";
  using Args = ItemArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) work_on(a.stamps[*a.item], a.turns);
  }
};

struct WorkOnItems {
  static constexpr const char* name = "item worker";
  static constexpr Team team = Team::warp;
  using Item = std::uint32_t;
  using Args = WorkerItemArgs;
  static Cost cost(const Args&) { return {}; }
  template <class Worker>
  ATTACCA_HD static void work(Worker& worker, const Item& item, const Args& a) {
    if (worker.rank() == 0) work_on(a.stamps[item], a.turns);
  }
};

struct Echo {
  static constexpr const char* name = "echo";
  using Args = EchoArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    RingReader<std::uint64_t> in(a.in);
    RingWriter<std::uint64_t> out(a.out);
    std::uint64_t since = NativeMemory::now();
    for (std::uint32_t at = 0; at < a.count;) {
      std::uint64_t value = 0;
      if (in.try_pop(value)) {
        out.try_push(value);
        since = NativeMemory::now();
        ++at;
      } else if (NativeMemory::now() - since > kEchoPatience) {
        return;
      }
    }
  }
};

}  // namespace

const attacca::Kernel<ItemArgs> do_one_item = attacca::make_kernel<DoOneItem>();
const attacca::QueueWorkers<std::uint32_t, WorkerItemArgs> item_workers =
    attacca::make_queue_workers<WorkOnItems>();
const attacca::Kernel<EchoArgs> echo = attacca::make_kernel<Echo>();

const attacca::Scheduler<std::uint32_t> schedule_items = attacca::make_scheduler<std::uint32_t>();

}  // namespace bench::claims
