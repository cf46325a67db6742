// `attacca example`: lists the examples, or runs one.
#include <fmt/format.h>

#include <iostream>

#include "choice.hpp"
#include "command.hpp"

namespace attacca::tool {

namespace {

void list_examples() {
  for (const examples::Example& example : examples::all_examples())
    fmt::print("{:<20}{}\n", example.name, example.summary);
  fmt::print("\nattacca example NAME runs one; attacca graph NAME prints its graph.\n");
}

void run_example(const std::string& name, const std::string& device_name) {
  const examples::Example example = example_called(name);
  const Device device = device_called(device_name);
  fmt::print("{} on {}\n", example.name, device.name());
  std::fflush(stdout);
  example.run(device, std::cout);
  std::cout.flush();
}

}  // namespace

void add_example(CLI::App& app) {
  CLI::App* command = app.add_subcommand("example", "Run one of the examples, or list them");
  command->footer(
      "Examples:\n  attacca example\n  attacca example heat\n"
      "  attacca example heat --device host-serial");
  const auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "The example to run; none lists them");
  const auto device = add_device_option(*command);
  command->callback(
      [name, device] { name->empty() ? list_examples() : run_example(*name, *device); });
}

}  // namespace attacca::tool
