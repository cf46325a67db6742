// model_status.hpp: what the server tells of its models: which are loaded, and what they did last.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace attacca::server {

enum class ModelState : std::uint8_t { unloaded, loading, loaded };

/// One line of the list of models.
struct ModelStatus {
  std::string name;
  ModelState state = ModelState::unloaded;
  std::size_t bytes = 0;             // that it takes; 0 if it is not loaded
  std::size_t longest_sequence = 0;  // 0 if it has never been loaded
};

struct ModelStep {
  std::string model;
  llm::StepRecord record;
};

}  // namespace attacca::server
