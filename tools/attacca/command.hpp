// The commands of `attacca`. Each function adds one subcommand, whose callback does the work.
// A callback reports failure by throwing: main prints "attacca: <what>" and exits with 1.
#pragma once

#include <CLI/CLI.hpp>

namespace attacca::tool {

void add_bench(CLI::App& app);
void add_demo(CLI::App& app);
void add_doctor(CLI::App& app);
void add_example(CLI::App& app);
void add_graph(CLI::App& app);

}  // namespace attacca::tool
