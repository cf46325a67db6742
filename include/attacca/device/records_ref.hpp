// records_ref.hpp: records as kernels write them, and the record of a launch. records.hpp has the
// ring that owns them.
#pragma once

#include <sched.h>

#include <attacca/device/memory_model.hpp>
#include <cstdint>

namespace attacca::device {

struct Record {
  std::uint64_t at;  // nanoseconds; the clock's origin is the device's own
  std::uint32_t what;
  std::uint32_t value;
  std::uint32_t pass;       // of the loop around it, counted from 1; 0: none
  std::uint32_t processor;  // the SM, or the core of the host
};

/// The SM or core that runs the calling thread.
ATTACCA_HD inline std::uint32_t this_processor() {
#if defined(__CUDA_ARCH__)
  std::uint32_t processor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  return processor;
#else
  return static_cast<std::uint32_t>(::sched_getcpu());
#endif
}

/// Records in the form of kernel arguments; Records owns them. A default one keeps nothing.
struct RecordsRef {
  using Count = Atomic<std::uint64_t, Scope::gpu>;

  Count* written = nullptr;
  Record* items = nullptr;
  std::uint64_t mask = 0;  // capacity - 1

  /// Takes about a microsecond of the calling thread on a GPU; many threads may call at once.
  ATTACCA_HD void add(std::uint32_t what, std::uint32_t value = 0, std::uint32_t pass = 0) const {
    if (items) add_at(NativeMemory::now(), what, value, pass);
  }
  /// For a time that was taken before, where there was no microsecond to spare.
  ATTACCA_HD void add_at(std::uint64_t at, std::uint32_t what, std::uint32_t value = 0,
                         std::uint32_t pass = 0) const {
    if (!items) return;
    items[written->fetch_add(1, relaxed) & mask] = {at, what, value, pass, this_processor()};
  }
  /// Adds several records whose times were taken earlier, with one atomic addition.
  template <std::uint32_t kCount>
  ATTACCA_HD void add_all(const std::uint64_t (&at)[kCount],
                          const std::uint32_t (&what)[kCount]) const {
    if (!items) return;
    const std::uint64_t first = written->fetch_add(kCount, relaxed);
    for (std::uint32_t n = 0; n < kCount; ++n)
      items[(first + n) & mask] = {at[n], what[n], 0, 0, this_processor()};
  }
};

/// What a record says of a site, a place in a graph or kernel that a Tracer knows by its number.
enum class SiteEvent : std::uint32_t { begins, ends, tail, fire_and_forget, sibling };

/// A site and where to record it; a default one records nothing.
struct SiteRef {
  RecordsRef records = {};
  std::uint32_t number = 0;

  static constexpr std::uint32_t kEvents = 8;
  ATTACCA_HD static constexpr std::uint32_t what(std::uint32_t number, SiteEvent event) {
    return number * kEvents + static_cast<std::uint32_t>(event);
  }

  ATTACCA_HD explicit operator bool() const { return records.items != nullptr; }
  /// `part` tells apart what runs at one site at the same time, such as blocks.
  ATTACCA_HD void add(SiteEvent event, std::uint32_t part = 0, std::uint32_t pass = 0) const {
    records.add(what(number, event), part, pass);
  }
  ATTACCA_HD void add_at(std::uint64_t at, SiteEvent event, std::uint32_t pass = 0) const {
    records.add_at(at, what(number, event), 0, pass);
  }
  /// A launch of the graph with this handle.
  ATTACCA_HD void add_launch(SiteEvent how, const void* graph) const {
    const auto handle = reinterpret_cast<std::uintptr_t>(graph);
    records.add(what(number, how), static_cast<std::uint32_t>(handle),
                static_cast<std::uint32_t>(std::uint64_t{handle} >> 32));
  }
};

}  // namespace attacca::device
