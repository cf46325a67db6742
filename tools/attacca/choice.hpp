// choice.hpp: the devices and examples that commands take by name.
#pragma once

#include <CLI/CLI.hpp>
#include <attacca/device.hpp>
#include <memory>
#include <string>

#include "examples/example.hpp"

namespace attacca::tool {

/// Adds --device to a command; the string holds what was chosen once the command runs.
inline std::shared_ptr<std::string> add_device_option(CLI::App& command) {
  auto name = std::make_shared<std::string>("best");
  command.add_option("--device", *name, "best, host, host-serial, cuda or cuda:N")
      ->capture_default_str();
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
  throw CLI::ValidationError("no example '" + name + "'; there are " + known);
}

}  // namespace attacca::tool
