// `attacca convert`: makes a GGUF file of a checkpoint in the format of llama2.c.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "command.hpp"
#include "model/checkpoint.hpp"
#include "model/llama2c.hpp"

namespace attacca::tool {

namespace {

struct Choices {
  std::string checkpoint;
  std::string tokenizer;
  std::string output;
};

void convert(const Choices& choices) {
  model::convert_llama2c(choices.checkpoint, choices.tokenizer, choices.output);
  const model::WeightSummary weights = model::Checkpoint::open(choices.output).weights();
  fmt::print("{}: {} tensors, {} parameters, {} bytes\n", choices.output, weights.tensors,
             weights.parameters, std::filesystem::file_size(choices.output));
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "Make a GGUF file of a llama2.c checkpoint");
  command->footer(
      "Example:\n  attacca convert stories260K.bin --tokenizer tok512.bin -o stories260K.gguf");
  const auto choices = std::make_shared<Choices>();
  command->add_option("CHECKPOINT", choices->checkpoint, "The model, a .bin of llama2.c")
      ->required();
  command->add_option("--tokenizer", choices->tokenizer, "Its tokenizer, tok*.bin or tokenizer.bin")
      ->required();
  command->add_option("-o,--output", choices->output, "The GGUF file to write")->required();
  command->callback([choices] { convert(*choices); });
}

}  // namespace attacca::tool
