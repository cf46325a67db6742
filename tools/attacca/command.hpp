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

// With the language model engine, in llm/.
void add_convert(CLI::App& app);
void add_inspect(CLI::App& app);
void add_pull(CLI::App& app);
void add_run(CLI::App& app);
void add_score(CLI::App& app);
void add_tokenize(CLI::App& app);

}  // namespace attacca::tool
