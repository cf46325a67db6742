// device_clock.cpp: times launches with CUDA events on a GPU, and with the host's clock elsewhere.
#include "llm/device_clock.hpp"

#include <memory>

#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include "raw.hpp"
#endif

namespace bench {

DeviceClock device_clock(const attacca::Device& device) {
#if ATTACCA_WITH_CUDA
  if (device.is_cuda())
    return [gpu = std::make_shared<Gpu>(device)](const Launch& launch, unsigned count) {
      const double all = gpu->device_microseconds([&] {
        for (unsigned at = 0; at < count; ++at) launch(gpu->stream);
      });
      gpu->stream.synchronize();  // throws the launches' error, if any
      return all / count;
    };
#endif
  return
      [stream = std::make_shared<attacca::Stream>(device)](const Launch& launch, unsigned count) {
        return microseconds([&] {
                 for (unsigned at = 0; at < count; ++at) launch(*stream);
                 stream->synchronize();
               }) /
               count;
      };
}

}  // namespace bench
