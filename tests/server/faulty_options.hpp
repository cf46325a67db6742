// faulty_options.hpp: options of a small engine whose device fails where a test asks for it.
#pragma once

#include <attacca/llm.hpp>

#include <memory>

#include "graph/access.hpp"
#include "support/faulty_device.hpp"

namespace attacca::server {

inline llm::EngineOptions faulty_options(const std::shared_ptr<test::Faults>& faults) {
  llm::EngineOptions options;
  options.device =
      graph::Access::device(std::make_shared<test::FaultyDevice>(Device::host(), faults));
  options.slots = 2;
  options.context = 64;
  options.overlap = false;
  return options;
}

}  // namespace attacca::server
