// lanes.hpp: the threads that run the policy together: a block on a GPU, or the one thread of the
// host. All lanes make the same calls. Work that is the same for every sequence is divided among
// them; what depends on what came before it is done by the first.
//
// A type of lanes has what OneLane has.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::schedule {

struct OneLane {
  ATTACCA_HD std::uint32_t index() const { return 0; }
  ATTACCA_HD std::uint32_t count() const { return 1; }
  /// Waits for the other lanes, and sees what they wrote.
  ATTACCA_HD void sync() const {}
  /// The sum of the values of the lanes before this one; `all` is the sum of all.
  template <class T>
  ATTACCA_HD T sum_before(const T& value, T& all) const {
    all = value;
    return {};
  }
};

template <class Lanes>
ATTACCA_HD bool is_first(const Lanes& lanes) {
  return lanes.index() == 0;
}

/// Numbers items one after another while lanes go through them together: each lane says how much of
/// every kind its own item takes, and gets where that begins.
template <class T>
class Numbering {
 public:
  template <class Lanes>
  ATTACCA_HD T place(const Lanes& lanes, const T& takes) {
    T all{};
    const T mine = next_ + lanes.sum_before(takes, all);
    next_ = next_ + all;
    return mine;
  }
  /// How much there is of everything so far.
  ATTACCA_HD const T& next() const { return next_; }
  ATTACCA_HD explicit Numbering(const T& first = {}) : next_(first) {}

 private:
  T next_;
};

}  // namespace attacca::schedule
