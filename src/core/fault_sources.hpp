// fault_sources.hpp: what kernels take their work from, by number. A kernel can only report a
// number; whoever has the number here explains what happened.
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

/// What the source of that number says; that it is gone where it no longer lives.
std::string explain_fault_source(unsigned number);

}  // namespace attacca::core
