// `attacca example`: lists the examples, or runs one.
#include <fmt/core.h>

#include <iostream>

#include "choice.hpp"
#include "command.hpp"
#include "files.hpp"

namespace attacca::tool {

namespace {

void list_examples() {
  for (const examples::Example& example : examples::all_examples())
    fmt::print("{:<20}{}\n", example.name, example.summary);
  fmt::print("\nattacca example NAME runs one; attacca graph NAME prints its graph.\n");
}

struct ExampleChoices {
  std::string name;
  std::string output;
};

void run_example(const ExampleChoices& choices, const std::string& device_name) {
  const examples::Example example = example_called(choices.name);
  if (!choices.output.empty() && !example.write)
    throw UsageError(fmt::format("example '{}' makes no file; leave --output out", example.name));
  if (!choices.output.empty()) require_writable(choices.output);
  const Device device = device_called(device_name);
  fmt::print("{} on {}\n", example.name, device.name());
  std::fflush(stdout);
  example.run(device, std::cout);
  if (!choices.output.empty()) {
    example.write(device, choices.output);
    std::cout << "written to " << choices.output << '\n';
  }
  std::cout.flush();
}

}  // namespace

void add_example(Program& program) {
  Command command = program.command("example", "Run one of the examples, or list them");
  command.footer(
      "Examples:\n  attacca example\n  attacca example heat\n"
      "  attacca example heat --device host-serial\n"
      "  attacca example nested_mandelbrot -o mandelbrot.pgm");
  const auto choices = std::make_shared<ExampleChoices>();
  command.option("NAME", text(choices->name), "The example to run [list them]");
  command.option("-o,--output", file_name(choices->output),
                 "The file to write, for an example that makes one [none]");
  const auto device = add_device_option(command);
  command.action([choices, device] {
    choices->name.empty() ? list_examples() : run_example(*choices, *device);
  });
}

}  // namespace attacca::tool
