// choice.hpp: the devices and examples that commands take by name.
#pragma once

#include <attacca/device.hpp>
#include <memory>
#include <string>

#include "command_line.hpp"
#include "examples/example.hpp"
#include "values.hpp"

namespace attacca::tool {

/// Adds --device to a command; the string holds the choice once the command runs.
inline std::shared_ptr<std::string> add_device_option(Command& command) {
  auto name = std::make_shared<std::string>("best");
  command.option("--device", device_name(*name), "best, host, host-serial, cuda or cuda:N")
      .shows_default(*name);
  return name;
}

inline Device device_called(const std::string& name) {
  return name == "best" ? Device::best() : Device::from_name(name);
}

inline examples::Example example_called(const std::string& name) {
  std::string known;
  for (const examples::Example& example : examples::all_examples()) {
    if (name == example.name) return example;
    known += known.empty() ? "" : ", ";
    known += example.name;
  }
  throw UsageError("no example '" + name + "'; there are " + known);
}

}  // namespace attacca::tool
