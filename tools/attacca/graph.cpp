// `attacca graph`: prints the graph of an example, or of one step of a model, as text, DOT, JSON or
// SVG.
#include <fmt/core.h>
#include <unistd.h>
#include <attacca/graph.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "choice.hpp"
#include "command.hpp"
#include "files.hpp"

#if ATTACCA_WITH_LLM
#include "llm/step_graph.hpp"
#include "model/shapes.hpp"
#endif

namespace attacca::tool {

namespace {

struct GraphChoices {
  std::string example;
#if ATTACCA_WITH_LLM
  StepGraphChoices step;
  std::vector<Option> step_options;
#endif
  std::string file;  // empty: standard output
  bool is_text = false;
  bool is_dot = false;
  bool is_json = false;
  bool is_svg = false;
};

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

void write(const std::string& text, const std::string& file) {
  if (file.empty()) {
    fmt::print("{}", text);
    return;
  }
  require_writable(file);
  std::ofstream out(file, std::ios::binary);
  if (!(out << text).flush()) throw Error(fmt::format("cannot write '{}'", file));
}

void write_svg(const std::string& dot, const std::string& file) {
  if (!is_installed("dot"))
    throw Error(
        "--svg needs the program dot of Graphviz, which is not on the PATH; install it (apt-get "
        "install graphviz), or use --dot and draw the result elsewhere");
  // The shell takes the file's name from the environment, so that no character of it is special.
  ::setenv("ATTACCA_SVG", file.c_str(), 1);
  std::FILE* pipe = ::popen(file.empty() ? "dot -Tsvg" : "dot -Tsvg -o \"$ATTACCA_SVG\"", "w");
  if (!pipe) throw Error("cannot start dot");
  const bool is_written = std::fwrite(dot.data(), 1, dot.size(), pipe) == dot.size();
  if (::pclose(pipe) != 0 || !is_written)
    throw Error(file.empty() ? "dot failed" : fmt::format("dot could not write '{}'", file));
}

Graph graph_of(const GraphChoices& choices, const Device& device) {
#if ATTACCA_WITH_LLM
  if (choices.example == "step") {
    if (choices.step.tokens && choices.step.batch)
      throw UsageError("--tokens is a prompt, and --batch sequences that decode; give one of them");
    return step_graph(choices.step, device);
  }
  for (const Option& option : choices.step_options)
    if (option.is_given())
      throw UsageError("--shape, --batch, --tokens and --layers are for `attacca graph step`");
#endif
  return example_called(choices.example).graph(device);
}

#if ATTACCA_WITH_LLM
void add_step_options(Command& command, GraphChoices& choices) {
  const auto add = [&](const char* name, const Value& value, const char* help) {
    return choices.step_options.emplace_back(
        command.option(name, value, help).group("Options of a step"));
  };
  StepGraphChoices& step = choices.step;
  add("--shape", one_of(model::shape_names(), step.shape), "The model's sizes")
      .shows_default(step.shape);
  add("--batch", whole_number(step.batch, 1, 1024), "Sequences that decode one token each")
      .shows_default("1");
  add("--tokens", whole_number(step.tokens, 1, 8192), "A prompt of so many tokens instead");
  add("--layers", whole_number(step.layers, 1, 1024), "Only the first layers; all if not given");
}
#endif

void print_graph(const GraphChoices& choices, const std::string& device) {
  if (choices.is_text + choices.is_dot + choices.is_json + choices.is_svg > 1)
    throw UsageError("--text, --dot, --json and --svg are formats of one graph; give one of them");
  const Graph graph = graph_of(choices, device_called(device));
  if (choices.is_svg)
    write_svg(to_dot(graph), choices.file);
  else
    write(choices.is_dot    ? to_dot(graph)
          : choices.is_json ? to_json(graph)
                            : to_text(graph),
          choices.file);
}

}  // namespace

void add_graph(Program& program) {
  Command command = program.command("graph", "Print the graph of an example or of a model's step");
  command.footer(
      "Examples:\n  attacca graph heat\n  attacca graph heat --json\n"
      "  attacca graph heat --svg -o heat.svg\n"
      "  attacca graph step --shape llama-1b --layers 2 --svg -o step.svg");
  const auto choices = std::make_shared<GraphChoices>();
  command
      .option("EXAMPLE", text(choices->example),
              "An example, which `attacca example` lists, or step: one of a model")
      .required();
  const auto format = [&](const char* name, bool& is_chosen, const char* help) {
    command.flag(name, is_chosen, help).group("Format, at most one [--text]");
  };
  format("--text", choices->is_text, "One line per node");
  format("--dot", choices->is_dot, "For Graphviz");
  format("--json", choices->is_json, "For programs; see docs/graph-json.md");
  format("--svg", choices->is_svg, "Drawn by Graphviz, which must be installed");
#if ATTACCA_WITH_LLM
  add_step_options(command, *choices);
#endif
  const auto device = add_device_option(command);
  command.option("-o,--output", file_name(choices->file), "A file instead of standard output");
  command.action([choices, device] { print_graph(*choices, *device); });
}

}  // namespace attacca::tool
