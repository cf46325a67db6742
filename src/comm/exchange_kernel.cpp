// exchange_kernel.cpp: every thread takes some elements: it reads them from all ranks, in their
// order, before it writes the result, so results may go over sources. Compiled by nvcc in a CUDA
// build.
#include "comm/exchange_kernel.hpp"

#include <type_traits>

#include "core/pairs.hpp"

namespace attacca::comm {

namespace {

struct alignas(16) Unit16 {
  std::uint64_t low, high;
};
struct alignas(16) Four {
  float x, y, z, w;
};

/// `in_pairs`: sums are in pairs. A kernel of its own, because it keeps an element of every rank.
template <bool in_pairs>
struct ExchangeKernel {
  static constexpr const char* name = in_pairs ? "exchange_in_pairs" : "exchange";
  using Args = ExchangeArgs;

  static Cost cost(const Args& a) {
    const double bytes = static_cast<double>(a.count) * a.unit_bytes * a.ranks;
    const bool is_sum =
        a.operation == Operation::all_reduce || a.operation == Operation::reduce_scatter;
    return {.flops = is_sum ? bytes / a.unit_bytes : 0, .bytes = 2 * bytes};
  }
  static void host(const Grid&, const Args& a) { run(a, 0, 1); }
  ATTACCA_DEVICE static void cuda(Thread& t, const Args& a) { run(a, t.index(), t.stride()); }

 private:
  ATTACCA_HD static std::uint64_t moved(const Args& a) {
    if (!a.limit) return a.count;
    const std::uint64_t limit = *a.limit * a.each;
    return limit < a.count ? limit : a.count;
  }

  ATTACCA_HD static void run(const Args& a, std::uint64_t first, std::uint64_t step) {
    switch (a.operation) {
      case Operation::all_reduce:
      case Operation::reduce_scatter:
        return reduce(a, first, step);
      case Operation::broadcast:
      case Operation::all_gather:
        if (a.unit_bytes == 16) return copy<Unit16>(a, first, step);
        if (a.unit_bytes == 4) return copy<std::uint32_t>(a, first, step);
        return copy<std::uint8_t>(a, first, step);
      default:
        return;  // a barrier
    }
  }

  template <class T>
  ATTACCA_HD static void copy(const Args& a, std::uint64_t first, std::uint64_t step) {
    const std::uint64_t count = moved(a);
    const bool gathers = a.operation == Operation::all_gather;
    for (int source = gathers ? 0 : a.root; source < (gathers ? a.ranks : a.root + 1); ++source) {
      const T* const from = reinterpret_cast<const T*>(a.from[source]);
      const std::uint64_t place = gathers ? static_cast<std::uint64_t>(source) * a.count : 0;
      for (std::uint64_t at = first; at < count; at += step) {
        const T value = from[at];
        for (int target = 0; target < a.ranks; ++target)
          if (gathers || target != a.root) reinterpret_cast<T*>(a.to[target])[place + at] = value;
      }
    }
  }

  ATTACCA_HD static void reduce(const Args& a, std::uint64_t first, std::uint64_t step) {
    switch (a.type) {
      case ElementType::i32:
        return reduce_as<std::int32_t>(a, first, step);
      case ElementType::u32:
        return reduce_as<std::uint32_t>(a, first, step);
      case ElementType::i64:
        return reduce_as<std::int64_t>(a, first, step);
      case ElementType::u64:
        return reduce_as<std::uint64_t>(a, first, step);
      case ElementType::f32:
        return reduce_as<float>(a, first, step);
      case ElementType::f64:
        return reduce_as<double>(a, first, step);
      case ElementType::bytes:
        return;  // Group takes only types that can be added up
    }
  }

  template <class T>
  ATTACCA_HD static T combine(Reduction reduction, T sum, T next) {
    if (reduction == Reduction::min) return next < sum ? next : sum;
    if (reduction == Reduction::max) return sum < next ? next : sum;
    if constexpr (std::is_integral_v<T>) {  // integers wrap around
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(sum) + static_cast<U>(next));
    } else {
      return sum + next;
    }
  }

  template <class T>
  ATTACCA_HD static T sum_at(const Args& a, std::uint64_t at) {
    if constexpr (in_pairs)
      return sum_in_pairs<kMostSharing, T>(
          a.ranks, [&](int rank) { return reinterpret_cast<const T*>(a.from[rank])[at]; },
          [](T x, T y) { return combine(Reduction::sum, x, y); });
    T sum = reinterpret_cast<const T*>(a.from[0])[at];
    for (int rank = 1; rank < a.ranks; ++rank)
      sum = combine(a.reduction, sum, reinterpret_cast<const T*>(a.from[rank])[at]);
    return sum;
  }

  /// Whether all-reduces of f32 can go four elements at a time, as those of models do.
  ATTACCA_HD static bool goes_by_fours(const Args& a, std::uint64_t count) {
    if (a.reduction != Reduction::sum || count % 4 != 0) return false;
    std::uintptr_t all = 0;
    for (int rank = 0; rank < a.ranks; ++rank)
      all |= reinterpret_cast<std::uintptr_t>(a.from[rank]);
    for (int rank = 0; rank < a.targets; ++rank)
      all |= reinterpret_cast<std::uintptr_t>(a.to[rank]);
    return all % sizeof(Four) == 0;
  }
  ATTACCA_HD static void add_fours(const Args& a, std::uint64_t count, std::uint64_t first,
                                   std::uint64_t step) {
    for (std::uint64_t at = first; at < count / 4; at += step) {
      Four sum = reinterpret_cast<const Four*>(a.from[0])[at];
      for (int rank = 1; rank < a.ranks; ++rank) {
        const Four next = reinterpret_cast<const Four*>(a.from[rank])[at];
        sum = {sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w};
      }
      for (int rank = 0; rank < a.targets; ++rank) reinterpret_cast<Four*>(a.to[rank])[at] = sum;
    }
  }

  template <class T>
  ATTACCA_HD static void reduce_as(const Args& a, std::uint64_t first, std::uint64_t step) {
    const std::uint64_t count = moved(a);
    if constexpr (std::is_same_v<T, float>)
      if (a.operation == Operation::all_reduce && goes_by_fours(a, count))
        return add_fours(a, count, first, step);
    if (a.operation == Operation::all_reduce) {
      for (std::uint64_t at = first; at < count; at += step) {
        const T sum = sum_at<T>(a, at);
        for (int rank = 0; rank < a.targets; ++rank) reinterpret_cast<T*>(a.to[rank])[at] = sum;
      }
      return;
    }
    for (int rank = 0; rank < a.ranks; ++rank)
      for (std::uint64_t at = first; at < count; at += step)
        reinterpret_cast<T*>(a.to[rank])[at] =
            sum_at<T>(a, static_cast<std::uint64_t>(rank) * a.count + at);
  }
};

}  // namespace

const Kernel<ExchangeArgs>& exchange_kernel(const ExchangeArgs& args) {
  static const Kernel<ExchangeArgs> kernel = make_kernel<ExchangeKernel<false>>();
  static const Kernel<ExchangeArgs> pairs = make_kernel<ExchangeKernel<true>>();
  return args.reduction == Reduction::sum_in_pairs ? pairs : kernel;
}

Grid grid_of(const ExchangeArgs& args, bool is_cuda) {
  constexpr std::uint64_t kMostThreads = 132 * 1024;  // more take turns
  if (!is_cuda) return Grid{};
  const bool by_fours = args.operation == Operation::all_reduce && args.type == ElementType::f32;
  const std::uint64_t count = by_fours ? (args.count + 3) / 4 : args.count;
  return Grid::covering(count == 0 ? 1 : count < kMostThreads ? count : kMostThreads);
}

}  // namespace attacca::comm
