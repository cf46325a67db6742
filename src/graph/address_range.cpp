// address_range.cpp: reserved addresses, given out and taken back.
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

namespace attacca::graph {

namespace {

constexpr std::size_t kReserved = std::size_t{16} << 30;  // addresses asked for at a time

/// Null where the system has no stretch of that size.
void* reserve(std::size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
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
    auto found = find_idle(size);
    if (found == idle_.end()) {
      grow(bytes, size);
      found = find_idle(size);
    }
    const auto [base, idle] = *found;
    idle_.erase(found);
    if (idle > size) idle_.emplace(base + size, idle - size);
    next_ = base + size;
    bytes_at_.emplace(base, bytes);
    return base;
  }

  void give_back(std::uintptr_t base) {
    const std::lock_guard lock(mutex_);
    const auto range = bytes_at_.find(base);
    add_idle(base, AddressRange::with_gap(range->second));
    bytes_at_.erase(range);
  }

  bool contains(std::uintptr_t address) {
    const std::lock_guard lock(mutex_);
    const auto after = bytes_at_.upper_bound(address);
    if (after == bytes_at_.begin()) return false;
    const auto& [base, bytes] = *std::prev(after);
    return address - base < AddressRange::with_gap(bytes);
  }

 private:
  using Stretches = std::map<std::uintptr_t, std::size_t>;

  [[noreturn]] static void refuse(std::size_t bytes, int error) {
    throw BadArgument(fmt::format(
        "cannot reserve {} bytes of addresses for an allocation node: {}; allocate less", bytes,
        std::strerror(error)));
  }

  /// Searches from where the last range was taken, so that an address is not soon given out again.
  /// A handle kept too long then names nothing, rather than a symbol of another graph.
  Stretches::iterator find_idle(std::size_t size) {
    const auto fits = [&](const auto& stretch) { return stretch.second >= size; };
    const auto after = idle_.lower_bound(next_);
    if (after != idle_.begin()) {
      const auto [base, bytes] = *std::prev(after);
      const std::size_t before = next_ - base;
      if (before < bytes && bytes - before >= size) {
        idle_[base] = before;
        return idle_.emplace(next_, bytes - before).first;
      }
    }
    const auto found = std::find_if(after, idle_.end(), fits);
    return found != idle_.end() ? found : std::find_if(idle_.begin(), idle_.end(), fits);
  }

  void grow(std::size_t bytes, std::size_t size) {
    std::size_t reserved = std::max(size, kReserved);
    void* address = reserve(reserved);
    if (!address && reserved > size) address = reserve(reserved = size);
    if (!address) refuse(bytes, errno);
    const auto base = reinterpret_cast<std::uintptr_t>(address);
    AddressRange::lowest_.store(std::min(AddressRange::lowest_.load(), base));
    AddressRange::highest_.store(std::max(AddressRange::highest_.load(), base + reserved - 1));
    add_idle(base, reserved);
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
  Stretches bytes_at_;  // ranges in use, with the bytes they were asked for
  Stretches idle_;      // reserved and in no range; no two touch
  std::uintptr_t next_ = 0;
};

AddressRange::AddressRange(std::size_t bytes)
    : base_(Reservations::all().take(bytes)), bytes_(bytes) {}
AddressRange::~AddressRange() { Reservations::all().give_back(base_); }
bool AddressRange::is_in_a_range(std::uintptr_t address) {
  return Reservations::all().contains(address);
}

}  // namespace attacca::graph
