// engine_flags.hpp: the engine's options on the command line: --device, --slots, --graphs, ..., and
// --config, a file with any of them.
#pragma once

#include <attacca/llm.hpp>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace attacca::tool {

struct EngineFlags {
  std::string device = "best";
  unsigned threads = 0;  // 0: all cores
  // Only commands with `add_rank_flags` have these two.
  unsigned ranks = 0;              // 0: the model is not split
  double rank_deadline = 30;       // seconds
  llm::EngineOptions engine;       // but for the device
  std::vector<std::string> names;  // of the command's long options, for `in_words_of_options`
};

void add_engine_flags(Command& command, EngineFlags& flags);
void add_rank_flags(Command& command, EngineFlags& flags);

/// With the device that the flags name.
llm::EngineOptions engine_options(const EngineFlags& flags);

/// Where an engine's memory goes, on one line.
std::string describe(const llm::EngineMemory& memory);

}  // namespace attacca::tool
