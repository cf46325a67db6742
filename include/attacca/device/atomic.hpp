// atomic.hpp: atomics with their scope in the type and their order in every call. Only this file
// chooses between the device's instructions and std::atomic_ref.
//
//   Atomic<unsigned, Scope::gpu> flag;
//   flag.store(1, release);                  // no call without an order
//   while (flag.load(relaxed) == 0) {}
//   fence<Scope::gpu>(acquire);
//   AtomicRef<int, Scope::gpu>(best[row]).fetch_max(score, relaxed);  // a plain int elsewhere
//
// On the device these are nvcc's __nv_atomic builtins and not cuda::atomic_ref, which has no
// cluster scope. On the host every scope is the whole process, and the same names mean std's.
#pragma once

#include <atomic>
#include <attacca/target.hpp>
#include <cstdint>
#include <type_traits>

namespace attacca::device {

/// The threads that can see an operation. Use the smallest scope that covers both sides; between
/// host and device that is `system`.
enum class Scope : std::uint8_t { block, cluster, gpu, system };
enum class Order : std::uint8_t { relaxed, acquire, release, acq_rel, seq_cst };

template <Order kOrder>
struct OrderTag {};
inline constexpr OrderTag<Order::relaxed> relaxed{};
inline constexpr OrderTag<Order::acquire> acquire{};
inline constexpr OrderTag<Order::release> release{};
inline constexpr OrderTag<Order::acq_rel> acq_rel{};
inline constexpr OrderTag<Order::seq_cst> seq_cst{};

namespace detail {

constexpr std::memory_order std_order(Order order) {
  switch (order) {
    case Order::relaxed:
      return std::memory_order_relaxed;
    case Order::acquire:
      return std::memory_order_acquire;
    case Order::release:
      return std::memory_order_release;
    case Order::acq_rel:
      return std::memory_order_acq_rel;
    case Order::seq_cst:
      return std::memory_order_seq_cst;
  }
  return std::memory_order_seq_cst;
}
constexpr bool loads(Order order) {
  return order == Order::relaxed || order == Order::acquire || order == Order::seq_cst;
}
constexpr bool stores(Order order) {
  return order == Order::relaxed || order == Order::release || order == Order::seq_cst;
}

#if defined(__CUDA_ARCH__)
constexpr int nv_order(Order order) {
  return order == Order::relaxed   ? __NV_ATOMIC_RELAXED
         : order == Order::acquire ? __NV_ATOMIC_ACQUIRE
         : order == Order::release ? __NV_ATOMIC_RELEASE
         : order == Order::acq_rel ? __NV_ATOMIC_ACQ_REL
                                   : __NV_ATOMIC_SEQ_CST;
}
constexpr int nv_scope(Scope scope) {
  return scope == Scope::block     ? __NV_THREAD_SCOPE_BLOCK
         : scope == Scope::cluster ? __NV_THREAD_SCOPE_CLUSTER
         : scope == Scope::gpu     ? __NV_THREAD_SCOPE_DEVICE
                                   : __NV_THREAD_SCOPE_SYSTEM;
}

/// The builtin fence takes literals only. There is no weaker fence than acq_rel.
template <Scope kScope, bool kIsSequential>
__device__ inline void device_fence() {
  if constexpr (kIsSequential) {
    if constexpr (kScope == Scope::block) asm volatile("fence.sc.cta;" ::: "memory");
    if constexpr (kScope == Scope::cluster) asm volatile("fence.sc.cluster;" ::: "memory");
    if constexpr (kScope == Scope::gpu) asm volatile("fence.sc.gpu;" ::: "memory");
    if constexpr (kScope == Scope::system) asm volatile("fence.sc.sys;" ::: "memory");
  } else {
    if constexpr (kScope == Scope::block) asm volatile("fence.acq_rel.cta;" ::: "memory");
    if constexpr (kScope == Scope::cluster) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    if constexpr (kScope == Scope::gpu) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    if constexpr (kScope == Scope::system) asm volatile("fence.acq_rel.sys;" ::: "memory");
  }
}
#endif

}  // namespace detail

/// Orders this thread's operations around it, at scope `kScope`.
template <Scope kScope, Order kOrder>
ATTACCA_HD inline void fence(OrderTag<kOrder>) {
  static_assert(kOrder != Order::relaxed, "a relaxed fence orders nothing");
#if defined(__CUDA_ARCH__)
  detail::device_fence<kScope, kOrder == Order::seq_cst>();
#elif !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(detail::std_order(kOrder));
#endif
}

/// ThreadSanitizer does not know fences. Under it the operation beside a fence carries the order:
/// use `after_release_fence` for the store that a release fence publishes.
#if defined(__SANITIZE_THREAD__)
inline constexpr OrderTag<Order::release> after_release_fence{};
#else
inline constexpr OrderTag<Order::relaxed> after_release_fence{};
#endif

/// Refers to a plain integer. While several threads use the integer, all of them use it through
/// atomic operations. It is only a pointer; `Atomic` is the integer itself.
template <class T, Scope kScope>
class AtomicRef {
  static_assert(std::is_integral_v<T> && !std::is_const_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "atomics are integers of 4 or 8 bytes");
  using Unsigned = std::make_unsigned_t<T>;

 public:
  /// REQUIRES: `value` is aligned to its size, as an integer by itself is.
  ATTACCA_HD constexpr explicit AtomicRef(T& value) : value_(&value) {}

  template <Order kOrder>
  ATTACCA_HD T load(OrderTag<kOrder>) const {
    static_assert(detail::loads(kOrder), "a load is relaxed, acquire or seq_cst");
#if defined(__CUDA_ARCH__)
    return __nv_atomic_load_n(value_, detail::nv_order(kOrder), detail::nv_scope(kScope));
#else
    return ref().load(detail::std_order(kOrder));
#endif
  }
  template <Order kOrder>
  ATTACCA_HD void store(T value, OrderTag<kOrder>) const {
    static_assert(detail::stores(kOrder), "a store is relaxed, release or seq_cst");
#if defined(__CUDA_ARCH__)
    __nv_atomic_store_n(value_, value, detail::nv_order(kOrder), detail::nv_scope(kScope));
#else
    ref().store(value, detail::std_order(kOrder));
#endif
  }
  /// This and the operations below return the old value.
  template <Order kOrder>
  ATTACCA_HD T exchange(T value, OrderTag<kOrder>) const {
#if defined(__CUDA_ARCH__)
    return __nv_atomic_exchange_n(value_, value, detail::nv_order(kOrder),
                                  detail::nv_scope(kScope));
#else
    return ref().exchange(value, detail::std_order(kOrder));
#endif
  }
  /// Adding wraps around, for signed integers too.
  template <Order kOrder>
  ATTACCA_HD T fetch_add(T value, OrderTag<kOrder>) const {
#if defined(__CUDA_ARCH__)
    // The device adds unsigned; two's complement makes it the same.
    return static_cast<T>(
        __nv_atomic_fetch_add(reinterpret_cast<Unsigned*>(value_), static_cast<Unsigned>(value),
                              detail::nv_order(kOrder), detail::nv_scope(kScope)));
#else
    return ref().fetch_add(value, detail::std_order(kOrder));
#endif
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_sub(T value, OrderTag<kOrder> order) const {
    // The least integer has no negative.
    return fetch_add(static_cast<T>(Unsigned{0} - static_cast<Unsigned>(value)), order);
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_or(T value, OrderTag<kOrder>) const {
#if defined(__CUDA_ARCH__)
    return __nv_atomic_fetch_or(value_, value, detail::nv_order(kOrder), detail::nv_scope(kScope));
#else
    return ref().fetch_or(value, detail::std_order(kOrder));
#endif
  }
  /// Stores the lesser, or the greater, of the old value and `value`.
  template <Order kOrder>
  ATTACCA_HD T fetch_min(T value, OrderTag<kOrder>) const {
#if defined(__CUDA_ARCH__)
    return __nv_atomic_fetch_min(value_, value, detail::nv_order(kOrder), detail::nv_scope(kScope));
#else
    return fetch_chosen(value, detail::std_order(kOrder), [](T a, T b) { return b < a; });
#endif
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_max(T value, OrderTag<kOrder>) const {
#if defined(__CUDA_ARCH__)
    return __nv_atomic_fetch_max(value_, value, detail::nv_order(kOrder), detail::nv_scope(kScope));
#else
    return fetch_chosen(value, detail::std_order(kOrder), [](T a, T b) { return a < b; });
#endif
  }
  /// If the value is `expected`, makes it `desired`; else stores the value in `expected`.
  template <Order kSuccess, Order kFailure>
  ATTACCA_HD bool compare_exchange(T& expected, T desired, OrderTag<kSuccess>,
                                   OrderTag<kFailure>) const {
    static_assert(detail::loads(kFailure), "a failed exchange is a load");
#if defined(__CUDA_ARCH__)
    return __nv_atomic_compare_exchange_n(value_, &expected, desired, false,
                                          detail::nv_order(kSuccess), detail::nv_order(kFailure),
                                          detail::nv_scope(kScope));
#else
    return ref().compare_exchange_strong(expected, desired, detail::std_order(kSuccess),
                                         detail::std_order(kFailure));
#endif
  }

 private:
  std::atomic_ref<T> ref() const { return std::atomic_ref<T>(*value_); }
  /// Writes even if nothing changes, so that a release always happens.
  template <class Replaces>
  T fetch_chosen(T value, std::memory_order order, Replaces replaces) const {
    T seen = ref().load(std::memory_order_relaxed);
    while (!ref().compare_exchange_weak(seen, replaces(seen, value) ? value : seen, order,
                                        std::memory_order_relaxed)) {
    }
    return seen;
  }

  T* value_;
};

/// An integer that several threads use. Trivial, so that it can lie in shared memory, in a struct
/// that is copied to the device, or in zeroed memory. Its operations are AtomicRef's.
template <class T, Scope kScope>
class Atomic {
 public:
  Atomic() = default;
  ATTACCA_HD constexpr explicit Atomic(T value) : value_(value) {}

  template <Order kOrder>
  ATTACCA_HD T load(OrderTag<kOrder> order) const {
    return ref().load(order);
  }
  template <Order kOrder>
  ATTACCA_HD void store(T value, OrderTag<kOrder> order) {
    ref().store(value, order);
  }
  template <Order kOrder>
  ATTACCA_HD T exchange(T value, OrderTag<kOrder> order) {
    return ref().exchange(value, order);
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_add(T value, OrderTag<kOrder> order) {
    return ref().fetch_add(value, order);
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_sub(T value, OrderTag<kOrder> order) {
    return ref().fetch_sub(value, order);
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_or(T value, OrderTag<kOrder> order) {
    return ref().fetch_or(value, order);
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_min(T value, OrderTag<kOrder> order) {
    return ref().fetch_min(value, order);
  }
  template <Order kOrder>
  ATTACCA_HD T fetch_max(T value, OrderTag<kOrder> order) {
    return ref().fetch_max(value, order);
  }
  template <Order kSuccess, Order kFailure>
  ATTACCA_HD bool compare_exchange(T& expected, T desired, OrderTag<kSuccess> success,
                                   OrderTag<kFailure> failure) {
    return ref().compare_exchange(expected, desired, success, failure);
  }

 private:
  ATTACCA_HD AtomicRef<T, kScope> ref() const {
    return AtomicRef<T, kScope>(const_cast<T&>(value_));
  }
  alignas(sizeof(T)) T value_;
};

static_assert(std::is_trivially_copyable_v<Atomic<unsigned, Scope::gpu>> &&
              std::is_trivially_default_constructible_v<Atomic<unsigned, Scope::gpu>> &&
              sizeof(Atomic<std::uint64_t, Scope::system>) == 8);
static_assert(std::is_trivially_copyable_v<AtomicRef<unsigned, Scope::gpu>>);

}  // namespace attacca::device
