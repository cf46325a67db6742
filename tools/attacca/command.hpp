// The commands of `attacca`. Each function adds one command, whose action does the work. An action
// reports failure by throwing: main prints "attacca: " and the message, and exits with 1.
#pragma once

#include "command_line.hpp"

namespace attacca::tool {

void add_bench(Program& program);
void add_bench_serve(Command& bench);
void add_demo(Program& program);
void add_doctor(Program& program);
void add_example(Program& program);
void add_graph(Program& program);
void add_roofline(Program& program);
void add_trace(Program& program);

/// Reads a whole command line, runs what it asks for and returns the exit status.
int run_program(int argc, const char* const* argv);

// With the language model engine, in llm/.
void add_convert(Program& program);
void add_inspect(Program& program);
void add_plan(Program& program);
void add_pull(Program& program);
void add_run(Program& program);
void add_score(Program& program);
void add_serve(Program& program);
void add_tokenize(Program& program);

}  // namespace attacca::tool
