// collatz.hpp: the work that resident_scheduler.cpp gives out, and its answers in plain C++. An
// item is a range of numbers; its answer is the most steps one of them takes to reach 1.
#pragma once

#include <algorithm>
#include <attacca/kernel.hpp>
#include <cstdint>
#include <vector>

#include "example.hpp"

namespace attacca::examples::collatz {

constexpr unsigned kItems = 400;
constexpr unsigned kNumbers = 256;  // per item

struct Walk {
  static constexpr const char* name = "walk";
  struct Args {
    const unsigned* item;
    unsigned* most;
  };
  static Cost cost(const Args&) { return {.flops = 300.0 * kNumbers, .bytes = 4.0 * kNumbers}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    std::uint64_t number = *a.item * kNumbers + t.index() + 1;
    unsigned steps = 0;
    for (; number != 1; ++steps) number = number % 2 ? 3 * number + 1 : number / 2;
    raise_to(*a.most, steps);
  }
};
struct Record {
  static constexpr const char* name = "record";
  struct Args {
    const unsigned* item;
    const unsigned* most;
    unsigned* answers;     // [kItems]
    unsigned* times_done;  // [kItems]
  };
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 20}; }
  ATTACCA_HD static void body(Thread&, const Args& a) {
    a.answers[*a.item] = *a.most;
    ++a.times_done[*a.item];
  }
};
/// The answers in plain C++. Each number reuses the steps of a smaller number met on its way.
inline std::vector<unsigned> expected_answers() {
  std::vector<unsigned> steps(kItems * kNumbers + 1, 0), answers(kItems, 0);
  for (unsigned start = 2; start < steps.size(); ++start) {
    std::uint64_t number = start;
    while (number >= start) {
      number = number & 1 ? 3 * number + 1 : number >> 1;
      ++steps[start];
    }
    steps[start] += steps[number];
  }
  for (unsigned item = 0; item < kItems; ++item)
    answers[item] = *std::max_element(steps.begin() + item * kNumbers + 1,
                                      steps.begin() + (item + 1) * kNumbers + 1);
  return answers;
}

}  // namespace attacca::examples::collatz
