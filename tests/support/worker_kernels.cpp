// worker_kernels.cpp: the bodies of persistent workers and of the resident scheduler's jobs. nvcc
// compiles them in a CUDA build.
#include "support/worker_kernels.hpp"

namespace attacca::test {

namespace {

using namespace device;

template <Team kTeam>
struct GrowTree {
  static constexpr const char* name = "grow tree";
  static constexpr Team team = kTeam;
  using Item = Branch;
  using Args = CountArgs;
  static Cost cost(const Args&) { return {}; }
  template <class Worker>
  ATTACCA_HD static void work(Worker& worker, const Item& item, const Args& a) {
    a.members->fetch_add(1, relaxed);
    worker.sync();
    if (worker.rank() != 0) return;
    a.items->fetch_add(1, relaxed);
    if (item.depth == 0) return;
    for (int child = 0; child < 2; ++child)
      if (worker.push(Branch{item.depth - 1}) == Push::full)
        a.items->fetch_add((2u << (item.depth - 1)) - 1, relaxed);
  }
};

template <Team kTeam>
struct Hit {
  static constexpr const char* name = "hit";
  static constexpr Team team = kTeam;
  using Item = std::uint64_t;
  using Args = HitArgs;
  static Cost cost(const Args&) { return {}; }
  template <class Worker>
  ATTACCA_HD static void work(Worker& worker, const Item& item, const Args& a) {
    if (worker.rank() == 0) ++a.hits[item];
  }
};

template <Team kTeam>
struct Linger {
  static constexpr const char* name = "linger";
  static constexpr Team team = kTeam;
  using Item = int;
  using Args = LingeringArgs;
  static Cost cost(const Args&) { return {}; }
  template <class Worker>
  ATTACCA_HD static void work(Worker& worker, const Item& item, const Args& a) {
    if (item < 0) return;
    if (worker.rank() == 0) a.has_begun->store(1, release);
    NativeMemory::Backoff backoff;
    while (!worker.is_cancelled()) backoff.pause();
  }
};

struct Abandon {
  static constexpr const char* name = "abandon";
  using Args = AbandonArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) (void)a.queue.claim_room(1);
  }
};

struct Add {
  static constexpr const char* name = "add";
  using Args = AddArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    a.totals[a.job->at] += a.times * a.job->value;
    if (a.job->more != 0)
      a.queue.try_push({a.job->kind, {a.job->at, a.job->value, a.job->more - 1, a.job->kind}});
  }
};

}  // namespace

QueueWorkers<Branch, CountArgs> tree_workers(Team team) {
  static const auto by_thread = make_queue_workers<GrowTree<Team::thread>>();
  static const auto by_warp = make_queue_workers<GrowTree<Team::warp>>();
  static const auto by_block = make_queue_workers<GrowTree<Team::block>>();
  return team == Team::thread ? by_thread : team == Team::warp ? by_warp : by_block;
}

QueueWorkers<int, LingeringArgs> lingering_workers(Team team) {
  static const auto by_thread = make_queue_workers<Linger<Team::thread>>();
  static const auto by_warp = make_queue_workers<Linger<Team::warp>>();
  static const auto by_block = make_queue_workers<Linger<Team::block>>();
  return team == Team::thread ? by_thread : team == Team::warp ? by_warp : by_block;
}

TicketWorkers<HitArgs> hit_workers(Team team) {
  static const auto by_thread = make_ticket_workers<Hit<Team::thread>>();
  static const auto by_warp = make_ticket_workers<Hit<Team::warp>>();
  static const auto by_block = make_ticket_workers<Hit<Team::block>>();
  return team == Team::thread ? by_thread : team == Team::warp ? by_warp : by_block;
}

const Scheduler<Sum> schedule_sums = make_scheduler<Sum>();
const Kernel<AbandonArgs> abandon_place = make_kernel<Abandon>();
const Kernel<AddArgs> add_sum = make_kernel<Add>();

}  // namespace attacca::test
