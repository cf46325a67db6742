// budget.hpp: limits on the steps, memory and nesting of one rendering, so that no template runs
// for ever or fills the memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/chat/value.hpp"

namespace attacca::text::chat {

class Budget {
 public:
  static constexpr std::uint64_t kSteps = 3'000'000;
  static constexpr std::uint64_t kBytes = 128 << 20;
  static constexpr unsigned kDepth = 1000;

  void spend_steps(std::size_t count) {
    steps_ += count;
    if (steps_ > kSteps) throw Problem("the template takes too many steps; does a loop not end?");
  }

  /// Counts the cost of a new value, and returns it.
  Value spend_for(Value made) {
    bytes_ += made.cost();
    spend_steps(1 + made.cost() / 64);
    if (bytes_ > kBytes) throw Problem("the template makes more than 128 MiB of text and lists");
    return made;
  }

  /// One level of nested expressions, statements and macro calls, for as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > kDepth) {
        --budget_.depth_;
        throw Problem("macros call each other too deeply");
      }
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --budget_.depth_; }

   private:
    Budget& budget_;
  };

 private:
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  unsigned depth_ = 0;
};

}  // namespace attacca::text::chat
