// yaml_config.hpp: options of a command from a YAML file, under the names they have on the command
// line, with _ for -. What the command line gives goes before what the file gives.
#pragma once

#include <string>

#include "command_line.hpp"

namespace attacca::tool {

/// Adds --config to a command. The file may set any of its long options.
void add_config_option(Command& command, const std::string& group);

}  // namespace attacca::tool
