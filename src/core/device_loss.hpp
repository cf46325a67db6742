// device_loss.hpp: who may know why a device failed. Processes that share a GPU lose it when one of
// them ends, and CUDA's error does not say which: the ranks' connections do.
#pragma once

#include <functional>
#include <string>

namespace attacca::core {

/// What a witness is told.
struct DeviceLoss {
  std::string words;  // of the error that would be thrown
  bool is_for_good;   // nothing runs on the device any more; else a wait on it expired
};

/// While it lives, `ask_witnesses` asks it. Thread-safe.
class LossWitness {
 public:
  /// `explain` throws an error that says more, or returns if it knows nothing. It calls no CUDA.
  explicit LossWitness(std::function<void(const DeviceLoss&)> explain);
  ~LossWitness();
  LossWitness(const LossWitness&) = delete;
  LossWitness& operator=(const LossWitness&) = delete;

 private:
  std::function<void(const DeviceLoss&)> explain_;
  friend void ask_witnesses(const DeviceLoss& loss);
};

/// Throws what the first witness that knows something throws. Else it returns.
void ask_witnesses(const DeviceLoss& loss);

}  // namespace attacca::core
