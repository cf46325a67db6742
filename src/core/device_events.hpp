// device_events.hpp: what backends say of their devices to whoever may know more: the ranks of this
// process. A listener may throw an error that says more. It calls no CUDA.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/listener.hpp"

namespace attacca::core {

/// A device failed. Processes that share a GPU lose it when one of them ends, and CUDA's error does
/// not say which.
struct DeviceFailed {
  std::string words;  // of the error that would be thrown
  bool is_for_good;   // nothing runs there any more; else a wait on it expired
};

/// A graph is about to be launched, or the work of a stream has ended.
struct WorkPasses {
  std::span<const std::shared_ptr<const void>> keeps;  // what the graph needs; empty at an end
  bool was_refused = false;                            // told before, and was not launched
};

}  // namespace attacca::core
