// `attacca convert`: makes a GGUF file, of a checkpoint in the format of llama2.c or of random
// weights in the shape of a known model.
#include <fmt/format.h>
#include <attacca/error.hpp>

#include <filesystem>
#include <memory>
#include <string>

#include "command.hpp"
#include "formats/llama2c.hpp"
#include "interrupt.hpp"
#include "llm/models.hpp"
#include "model/checkpoint.hpp"
#include "model/random_model.hpp"
#include "model/shapes.hpp"
#include "progress.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

struct ConvertChoices {
  std::string checkpoint;
  std::string shape;
  std::string weights = "bf16";
  std::uint64_t seed = 1;
  std::string tokenizer;
  std::string output;
  bool replaces = false;
};

model::Checkpoint tokenizer_of(const ConvertChoices& choices) {
  model::Checkpoint found = open_checkpoint(choices.tokenizer);
  if (!found.gguf())
    throw BadArgument(fmt::format(
        "--tokenizer {}: with --random it takes a GGUF file, whose tokenizer can be copied",
        choices.tokenizer));
  return found;
}

void write_random(const ConvertChoices& choices) {
  const model::RandomModel random{.config = model::shape_called(choices.shape),
                                  .weights = model::weight_type_called(choices.weights),
                                  .seed = choices.seed};
  ProgressBar bar;
  const CatchInterrupts catching;  // an exception removes the unfinished file
  model::write_random_model(random, *tokenizer_of(choices).gguf(), choices.output,
                            [&](std::string_view what, std::uint64_t done, std::uint64_t all) {
                              catching.check();
                              bar.show(what, done, all);
                            });
}

void convert(const ConvertChoices& choices) {
  if (choices.checkpoint.empty() == choices.shape.empty())
    throw UsageError("give a CHECKPOINT or --random SHAPE, one of them");
  if (choices.shape.empty() && choices.tokenizer.empty())
    throw UsageError("a CHECKPOINT of llama2.c needs its tokenizer: --tokenizer tok.bin");
  if (!choices.replaces && std::filesystem::exists(choices.output))
    throw BadArgument(fmt::format(
        "'{}' exists; name another file for -o, or let --force replace it", choices.output));
  if (choices.shape.empty())
    formats::convert_llama2c(choices.checkpoint, choices.tokenizer, choices.output);
  else
    write_random(choices);
  const model::WeightSummary weights = model::Checkpoint::open(choices.output).weights();
  fmt::print("{}: {} tensors, {} parameters, {} bytes\n", choices.output, weights.tensors,
             weights.parameters, std::filesystem::file_size(choices.output));
  for (const auto& [type, tensors, parameters, bytes] : weights.types)
    if (tensors > 0 && !choices.shape.empty())
      fmt::print("  {:<5} {} tensors, {} bytes\n", kernels::type_name(type), tensors, bytes);
}

}  // namespace

void add_convert(Program& program) {
  Command command =
      program.command("convert", "Make a GGUF file of a llama2.c checkpoint, or of random weights");
  command.footer(
      "Examples:\n"
      "  attacca convert stories260K.bin --tokenizer tok512.bin -o stories260K.gguf\n"
      "  attacca convert --random llama-1b --weights q4_k -o random.gguf\n"
      "\n"
      "A model of random weights says nothing of sense, at the speed of a real one. Its tokenizer\n"
      "is a real one; ids beyond it are <reserved_N>. Matrices whose rows are no whole blocks of\n"
      "--weights become Q8_0.");
  const auto choices = std::make_shared<ConvertChoices>();
  command.option("CHECKPOINT", text(choices->checkpoint), "The model, a .bin of llama2.c");
  command.option("--random", one_of(model::shape_names(), choices->shape),
                 "Random weights in the shape of this model");
  command.option("--tokenizer", text(choices->tokenizer),
                 "Its tokenizer, tok*.bin or tokenizer.bin; with --random that of a model, a "
                 "GGUF file or a name [the embedded one]");
  command.option("-o,--output", file_name(choices->output), "The GGUF file to write").required();
  command
      .option("--weights", one_of(model::weight_type_names(), choices->weights),
              "With --random: the type of matrices")
      .shows_default(choices->weights);
  command
      .option("--seed", whole_number(choices->seed),
              "With --random: the same seed makes the same file")
      .shows_default(fmt::to_string(choices->seed));
  command.flag("--force", choices->replaces, "Replace a file that exists");
  command.action([choices] { convert(*choices); });
}

}  // namespace attacca::tool
