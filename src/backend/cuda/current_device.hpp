// current_device.hpp: selects a device for one scope and then restores the calling thread's own.
// Every entry into CUDA has one, so that a program never finds another device selected than its
// own.
#pragma once

#include <new>

namespace attacca::cuda {

/// `Runtime` has `int current()`, which is -1 where it cannot tell, `void select(int)`, which may
/// throw, and `void select_quietly(int) noexcept`. Where the device is current already, nothing is
/// selected.
template <class Runtime>
class SelectedDevice {
 public:
  explicit SelectedDevice(int index) : before_(Runtime::current()), is_changed_(before_ != index) {
    if (is_changed_) Runtime::select(index);
  }
  /// For destructors.
  SelectedDevice(int index, std::nothrow_t) noexcept
      : before_(Runtime::current()), is_changed_(before_ != index) {
    if (is_changed_) Runtime::select_quietly(index);
  }
  ~SelectedDevice() {
    if (is_changed_ && before_ >= 0) Runtime::select_quietly(before_);
  }
  SelectedDevice(const SelectedDevice&) = delete;
  SelectedDevice& operator=(const SelectedDevice&) = delete;

 private:
  int before_;
  bool is_changed_;
};

/// The CUDA runtime. Defined in check.cpp.
struct CudaRuntime {
  static int current() noexcept;
  static void select(int index);
  static void select_quietly(int index) noexcept;
};
using CurrentDevice = SelectedDevice<CudaRuntime>;

}  // namespace attacca::cuda
