// device.hpp: makes host devices: worker threads, or one node at a time.
#pragma once

#include <memory>

#include "graph/executor.hpp"

namespace attacca::host {

/// `threads` workers; 0 runs one node at a time.
std::shared_ptr<graph::DeviceImpl> make_device(unsigned threads, std::string name);

}  // namespace attacca::host
