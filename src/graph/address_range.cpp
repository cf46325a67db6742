// address_range.cpp: reserved addresses, each given out once. Only when there are no others, those
// taken back are given out again.
#include "graph/address_range.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace attacca::graph {

namespace {

constexpr std::size_t kReserved = std::size_t{256} << 20;  // addresses asked for at a time
// Addresses at both ends of a reservation that no range gets: an index that is wrong by less finds
// no memory.
constexpr std::size_t kMargin = std::size_t{16} << 20;
// The lower half of a reservation's first address. Padding in a kernel's arguments may hold the
// upper half of an old stand-in, behind a value of 4 bytes. From here on such a value would be a
// negative integer below -1.8e9 or a negative denormal.
constexpr std::uintptr_t kLowerHalf = 0x81000000;
constexpr std::uintptr_t kEvery = std::uintptr_t{1} << 32;  // so far apart are two such addresses
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t kMost = std::size_t{512} << 30;  // a program has 1.5 TiB beside its shadow
#else
constexpr std::size_t kMost = std::size_t{16} << 40;  // an eighth of a process's addresses
#endif

/// 0 where the system has no stretch of that size.
std::uintptr_t reserve(std::size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(address);
}

void release(std::uintptr_t first, std::uintptr_t end) {
  if (first != end) ::munmap(reinterpret_cast<void*>(first), end - first);
}

/// The same, with `kLowerHalf` as the lower half of the address.
std::uintptr_t reserve_apart(std::size_t bytes) {
  const std::uintptr_t all = reserve(bytes + kEvery);
  if (all == 0) return 0;
  const std::uintptr_t base = all + (kLowerHalf - all) % kEvery;
  release(all, base);
  release(base + bytes, all + bytes + kEvery);
  return base;
}

}  // namespace

/// The addresses reserved so far. They are never given back to the system: reserving costs no
/// memory, and asking anew for each graph cost two system calls.
class Reservations {
 public:
  static Reservations& all() {
    static auto& instance = *new Reservations;  // never destroyed: static graphs end late
    return instance;
  }

  std::uintptr_t take(std::size_t bytes) {
    if (bytes > std::numeric_limits<std::size_t>::max() / 2) refuse(bytes, ENOMEM);
    const std::size_t size = AddressRange::with_gap(bytes);
    const std::lock_guard lock(mutex_);
    if (size <= fresh_bytes_) {
      fresh_bytes_ -= size;
      return std::exchange(fresh_, fresh_ + size);
    }
    std::uintptr_t base = grow_apart(size);
    if (base == 0) base = take_again(size);
    if (base == 0) base = grow(size, reserve(size), size, 0);
    if (base == 0) refuse(bytes, errno);
    return base;
  }

  void give_back(std::uintptr_t base, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    add_idle(base, AddressRange::with_gap(bytes));
  }

  bool contains(std::uintptr_t address) {
    const std::lock_guard lock(mutex_);
    const auto after = reserved_.upper_bound(address);
    if (after == reserved_.begin()) return false;
    const auto& [base, bytes] = *std::prev(after);
    return address - base < bytes;
  }

 private:
  using Stretches = std::map<std::uintptr_t, std::size_t>;

  [[noreturn]] static void refuse(std::size_t bytes, int error) {
    throw BadArgument(fmt::format(
        "cannot reserve {} bytes of addresses for an allocation node: {}; allocate less", bytes,
        std::strerror(error)));
  }

  /// The first address of a new reservation, or 0 where there are enough.
  std::uintptr_t grow_apart(std::size_t size) {
    constexpr std::size_t kWhole = std::size_t{1} << 20;  // a multiple of every page size
    const std::size_t roomy = std::max(size + 2 * kMargin, kReserved);
    const std::size_t bytes = (roomy + kWhole - 1) / kWhole * kWhole;
    if (spread_ + bytes + kEvery > kMost) return 0;
    const std::uintptr_t first = grow(size, reserve_apart(bytes), bytes, kMargin);
    if (first != 0) spread_ += bytes + kEvery;
    return first;
  }

  /// Takes from a new reservation. Of what is left there and what was left before, the larger part
  /// is fresh from now on.
  std::uintptr_t grow(std::size_t size, std::uintptr_t base, std::size_t bytes,
                      std::size_t margin) {
    if (base == 0) return 0;
    AddressRange::lowest_.store(std::min(AddressRange::lowest_.load(), base));
    AddressRange::highest_.store(std::max(AddressRange::highest_.load(), base + bytes - 1));
    reserved_.emplace(base, bytes);
    in_order_.push_back(base);
    const std::uintptr_t first = base + margin;
    std::uintptr_t rest = first + size;
    std::size_t rest_bytes = bytes - 2 * margin - size;
    if (rest_bytes > fresh_bytes_) {
      std::swap(rest, fresh_);
      std::swap(rest_bytes, fresh_bytes_);
    }
    if (rest_bytes != 0) add_idle(rest, rest_bytes);
    return first;
  }

  /// Addresses of a range that has ended, or 0. Goes through them in the order in which they were
  /// first given out, so that none comes back soon.
  std::uintptr_t take_again(std::size_t size) {
    if (in_order_.empty()) return 0;
    for (std::size_t tried = 0; tried <= in_order_.size(); ++tried) {
      const std::uintptr_t first = in_order_[again_in_];
      const std::uintptr_t end = first + reserved_.at(first);
      auto found = idle_.lower_bound(std::max(first, again_from_));
      while (found != idle_.end() && found->first < end && found->second < size) ++found;
      if (found != idle_.end() && found->first < end) {
        const auto [base, idle] = *found;
        idle_.erase(found);
        if (idle > size) idle_.emplace(base + size, idle - size);
        again_from_ = base + size;
        return base;
      }
      again_in_ = (again_in_ + 1) % in_order_.size();
      again_from_ = 0;
    }
    return 0;
  }

  void add_idle(std::uintptr_t base, std::size_t size) {
    const auto after = idle_.lower_bound(base);
    if (after != idle_.end() && base + size == after->first) {
      size += after->second;
      idle_.erase(after);
    }
    const auto behind = idle_.lower_bound(base);
    if (behind != idle_.begin()) {
      const auto before = std::prev(behind);
      if (before->first + before->second == base) {
        before->second += size;
        return;
      }
    }
    idle_.emplace(base, size);
  }

  std::mutex mutex_;
  Stretches reserved_;
  std::vector<std::uintptr_t> in_order_;  // where reservations begin, the oldest first
  std::size_t spread_ = 0;                // addresses that reservations lie among
  std::uintptr_t fresh_ = 0;  // addresses never given out, which the next small ranges get
  std::size_t fresh_bytes_ = 0;
  Stretches idle_;                 // given out and taken back, or left over; no two touch
  std::size_t again_in_ = 0;       // the reservation in `in_order_` whose idle ones come next
  std::uintptr_t again_from_ = 0;  // and the address from which they do
};

AddressRange::AddressRange(std::size_t bytes)
    : base_(Reservations::all().take(bytes)), bytes_(bytes) {}
AddressRange::~AddressRange() { Reservations::all().give_back(base_, bytes_); }
bool AddressRange::is_reserved(std::uintptr_t address) {
  return Reservations::all().contains(address);
}

}  // namespace attacca::graph
