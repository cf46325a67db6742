// `attacca`: one command with subcommands. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <attacca/version.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "command.hpp"
#include "output.hpp"

namespace attacca::tool {

int run_program(int argc, const char* const* argv) {
  Program program("attacca", "Graphs that keep a GPU from going idle, and language models on them.",
                  version());
  program.footer(
      "Examples:\n"
      "  attacca help run            explain a command and its options\n"
      "  attacca run                 talk to the embedded model\n"
      "  attacca serve               answer OpenAI's clients over HTTP\n"
      "  attacca pull smollm2        fetch a real chat model, for attacca run smollm2\n"
      "  attacca plan steps.jsonl    choose the step sizes that have graphs\n"
      "  attacca trace run.json      say where the time of a run went\n"
      "  attacca roofline run.json   say which tool would make its kernels faster\n"
      "  attacca doctor              show what this machine and this build can do\n"
      "  attacca doctor --json       the same for a program\n"
      "  attacca demo                build, print and run a graph with a loop\n"
      "  attacca bench list          name the benchmarks, and where each runs\n"
      "  attacca graph --help        print an example's graph as text, DOT or JSON\n"
      "  attacca example --help      run one of the examples");
#if ATTACCA_WITH_LLM
  add_run(program);
  add_serve(program);
  add_pull(program);
  add_inspect(program);
  add_tokenize(program);
  add_score(program);
  add_convert(program);
  add_plan(program);
#endif
  add_bench(program);
  add_demo(program);
  add_doctor(program);
  add_example(program);
  add_graph(program);
  add_roofline(program);
  add_trace(program);
  return program.run(argc, argv);
}

}  // namespace attacca::tool

namespace {
constexpr int kFailed = 1;
}

int main(int argc, char** argv) {
  try {
    const int status = attacca::tool::run_program(argc, argv);
    attacca::tool::finish_output();
    return status;
  } catch (const std::bad_alloc&) {
    std::fputs("attacca: there is not enough memory\n", stderr);
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attacca: %s\n", error.what());
    return kFailed;
  }
}
