// atomic_kernels.hpp: a kernel that does every atomic operation from every thread, in every scope.
#pragma once

#include <attacca/device/atomic.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

/// Cells of one integer type, all zero at first.
template <class T, device::Scope kScope>
struct AtomicCells {
  device::Atomic<T, kScope> added;      // each thread adds its number + 1
  device::Atomic<T, kScope> taken;      // each thread subtracts its number + 1
  device::Atomic<T, kScope> exchanged;  // each thread stores its number + 1
  device::Atomic<T, kScope> received;   // each thread adds the value it found in `exchanged`
  device::Atomic<T, kScope> compared;   // each thread adds 1 by comparing and exchanging
  device::Atomic<T, kScope> bits;       // thread n sets bit n % 31
  device::Atomic<T, kScope> least;      // of what each thread has, see lopsided
  device::Atomic<T, kScope> greatest;
  T plain_sum;  // as `added` and the two before, through AtomicRef
  T plain_least;
  T plain_greatest;
};
template <device::Scope kScope>
struct ScopeCells {
  AtomicCells<std::uint32_t, kScope> u32;
  AtomicCells<std::int32_t, kScope> i32;
  AtomicCells<std::uint64_t, kScope> u64;
  AtomicCells<std::int64_t, kScope> i64;
};
/// Every scope; the cells of scope `block` and `cluster` are used by the first block alone.
struct EveryScope {
  ScopeCells<device::Scope::block> block;
  ScopeCells<device::Scope::cluster> cluster;
  ScopeCells<device::Scope::gpu> gpu;
  ScopeCells<device::Scope::system> system;
};

struct AtomicArgs {
  EveryScope* cells;
};
extern const Kernel<AtomicArgs> use_atomics;

/// Negative for every other thread if T is signed; else near T's maximum.
template <class T>
ATTACCA_HD T lopsided(std::uint64_t index) {
  using Unsigned = std::make_unsigned_t<T>;
  const auto number = static_cast<Unsigned>(index + 1);
  return static_cast<T>(index % 2 ? Unsigned{0} - number : number);
}

/// The operations of thread `index` on the cells.
template <class T, device::Scope kScope>
ATTACCA_HD void use_cells(AtomicCells<T, kScope>& cells, std::uint64_t index) {
  using namespace device;
  const auto number = static_cast<T>(index + 1);
  cells.added.fetch_add(number, relaxed);
  cells.taken.fetch_sub(number, acq_rel);
  cells.received.fetch_add(cells.exchanged.exchange(number, acquire), release);
  cells.bits.fetch_or(static_cast<T>(T{1} << index % 31), seq_cst);
  cells.least.fetch_min(lopsided<T>(index), acq_rel);
  cells.greatest.fetch_max(lopsided<T>(index), relaxed);
  AtomicRef<T, kScope>(cells.plain_sum).fetch_add(number, relaxed);
  AtomicRef<T, kScope>(cells.plain_least).fetch_min(lopsided<T>(index), relaxed);
  AtomicRef<T, kScope>(cells.plain_greatest).fetch_max(lopsided<T>(index), seq_cst);
  T seen = cells.compared.load(relaxed);
  while (!cells.compared.compare_exchange(seen, seen + 1, acq_rel, acquire)) {
  }
  fence<kScope>(acquire);
  fence<kScope>(release);
  fence<kScope>(acq_rel);
  fence<kScope>(seq_cst);
}
template <device::Scope kScope>
ATTACCA_HD void use_all_cells(ScopeCells<kScope>& cells, std::uint64_t index) {
  use_cells(cells.u32, index);
  use_cells(cells.i32, index);
  use_cells(cells.u64, index);
  use_cells(cells.i64, index);
}

}  // namespace attacca::test
