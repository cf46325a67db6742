// meeting_kernels.cpp: the bodies of kernels whose blocks wait for each other. nvcc compiles them
// in a CUDA build.
#include "support/meeting_kernels.hpp"

#include <attacca/device/memory_model.hpp>

namespace attacca::test {

namespace {

ATTACCA_HD void come_together(WaitingThread& t, const MeetArgs& a) {
  t.wait_for_producers();
  if (t.thread.x != 0) return;
  const auto blocks = static_cast<std::uint32_t>(t.blocks.count());
  // Each launch has its own round, which ends at the next multiple of the number of blocks.
  const std::uint32_t wanted = (a.come->fetch_add(1, device::acq_rel) / blocks + 1) * blocks;
  const std::uint64_t start = device::NativeMemory::now();
  device::NativeMemory::Backoff backoff;
  for (std::uint32_t seen; (seen = a.come->load(device::acquire)) < wanted; backoff.pause()) {
    const std::uint64_t waited = device::NativeMemory::now() - start;
    if (waited < a.patience_nanoseconds) continue;
    t.give_up(0, wanted, seen, waited);
    return;
  }
  a.met->fetch_add(1, device::relaxed);
}

struct Meeting {
  static constexpr bool waits = true;
  static constexpr bool blocks_wait = true;
  static constexpr const char* waits_for[] = {"the other blocks"};
  using Args = MeetArgs;
  static Cost cost(const Args&) { return {}; }
};

struct Meet : Meeting {
  static constexpr const char* name = "meet";
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) { come_together(t, a); }
};

struct MeetOnGpu : Meeting {
  static constexpr const char* name = "meet_on_gpu";
  static constexpr bool waits = false;
  static void host(const Grid& grid, const Args& a) {
    a.met->fetch_add(static_cast<std::uint32_t>(grid.blocks.count()), device::relaxed);
  }
  ATTACCA_DEVICE static void cuda(WaitingThread& t, const Args& a) { come_together(t, a); }
};

struct MeetOnGpuByBlock : Meeting {
  static constexpr const char* name = "meet_on_gpu_by_block";
  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    a.met->fetch_add(1, device::relaxed);
  }
  ATTACCA_DEVICE static void cuda(WaitingThread& t, const Args& a) { come_together(t, a); }
};

struct WorkPersistently {
  static constexpr const char* name = "work_persistently";
  static constexpr bool is_persistent = true;
  using Args = WorkArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread&, const Args& a) { a.done->fetch_add(1, device::relaxed); }
};

}  // namespace

const Kernel<MeetArgs> meet = make_kernel<Meet>();
const Kernel<MeetArgs> meet_on_gpu = make_kernel<MeetOnGpu>();
const Kernel<MeetArgs> meet_on_gpu_by_block = make_kernel<MeetOnGpuByBlock>();
const Kernel<WorkArgs> work_persistently = make_kernel<WorkPersistently>();

}  // namespace attacca::test
