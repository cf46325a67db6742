// fault_sources.hpp: the sources that kernels take work from, by number. A kernel can only report a
// number; the source with that number explains what happened.
#pragma once

#include <functional>
#include <string>

namespace attacca::core {

/// While it lives, its number stands for `explain`. Thread-safe.
class FaultSource {
 public:
  explicit FaultSource(std::function<std::string()> explain);
  ~FaultSource();
  FaultSource(const FaultSource&) = delete;
  FaultSource& operator=(const FaultSource&) = delete;

  /// Below 2^24, so that it fits beside a status.
  unsigned number() const { return number_; }

 private:
  unsigned number_;
};

/// The explanation by the source with that number, or words that it is gone.
std::string explain_fault_source(unsigned number);

}  // namespace attacca::core
