// `attacca inspect`: describes a model, the memory it needs and its tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

#include "command.hpp"
#include "json.hpp"
#include "llm/models.hpp"
#include "model/checkpoint.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using formats::Tensor;
using model::Checkpoint;
using model::ModelConfig;
using model::RopeScaling;
using model::WeightSummary;

constexpr std::size_t kTemplateLines = 6;

struct InspectChoices {
  std::string model;
  bool is_json = false;
  bool has_tensors = false;
};

void say(std::string_view label, const std::string& text) { fmt::print("{:<16}{}\n", label, text); }

/// At most `most` bytes of a file's text, with control characters replaced.
std::string printable(std::string_view text, std::size_t most) {
  const auto is_inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  std::size_t length = std::min(text.size(), most);
  while (length > 0 && length < text.size() && is_inside_character(length)) --length;
  std::string result(text.substr(0, length));
  for (char& letter : result)
    if (static_cast<unsigned char>(letter) < ' ' || letter == 127) letter = '?';
  return result + (length < text.size() ? "…" : "");
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < std::size(kUnits)) size /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string scaling_name(const ModelConfig& config) {
  if (!config.rope_divisors.empty()) return "divisors";
  switch (config.scaling.kind) {
    case RopeScaling::Kind::none:
      break;
    case RopeScaling::Kind::linear:
      return "linear";
    case RopeScaling::Kind::llama3:
      return "llama3";
  }
  return "none";
}

const char* pairs_name(kernels::RotaryPairs pairs) {
  return pairs == kernels::RotaryPairs::adjacent ? "adjacent" : "halves";
}

/// Keys and values of one sequence that fills the context.
std::uint64_t context_bytes(const ModelConfig& config) {
  return kv_bytes_per_token(config) * config.context;
}

void print_template(const std::optional<std::string>& text) {
  if (!text) {
    say("chat template", "none");
    return;
  }
  say("chat template", fmt::format("{} bytes", text->size()));
  std::size_t start = 0;
  for (std::size_t line = 0; line < kTemplateLines && start < text->size(); ++line) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    fmt::print("    {}\n", printable(std::string_view(*text).substr(start, end - start), 80));
    start = end + 1;
  }
  if (start < text->size()) fmt::print("    …\n");
}

void print_text(const Checkpoint& checkpoint, bool has_tensors) {
  const ModelConfig& config = checkpoint.config();
  const WeightSummary weights = checkpoint.weights();
  say("model", printable(config.name, 80));
  say("architecture", config.architecture->name);
  say("layers", fmt::to_string(config.layers));
  say("hidden", fmt::format("{}, feed-forward {}", config.hidden, config.feed_forward));
  say("heads", fmt::format("{} of {}, {} for keys and values", config.heads, config.head_size,
                           config.kv_heads));
  say("context", fmt::format("{}{}", config.context,
                             config.window ? fmt::format(", window {}", config.window) : ""));
  say("rotary", fmt::format("{} of {} elements, {}, base {}, scaling {}", config.rotary_size,
                            config.head_size, pairs_name(config.pairs), config.rope_theta,
                            scaling_name(config)));
  say("vocabulary",
      fmt::format(
          "{} tokens, ends with {}", config.vocabulary,
          config.eos_ids.empty() ? "none" : fmt::format("{}", fmt::join(config.eos_ids, ", "))));
  say("head", *config.is_tied ? "the embedding" : "its own");
  say("parameters", fmt::format("{} in {} tensors", weights.parameters, weights.tensors));
  for (const WeightSummary::OfType& type : weights.types)
    say("", fmt::format("{:<5}{:>6} tensors {:>12}", kernels::type_name(type.type), type.tensors,
                        size_text(type.bytes)));
  print_template(checkpoint.chat_template());
  say("memory", fmt::format("{} of weights", size_text(weights.bytes)));
  say("", fmt::format("{} of keys and values per token, {} for a full context",
                      size_text(kv_bytes_per_token(config)), size_text(context_bytes(config))));
  for (const std::string& note : config.notes) say("note", printable(note, 1000));
  if (!has_tensors) return;
  fmt::print("\n");
  for (const Tensor& tensor : checkpoint.tensors())
    fmt::print("{:<32}{:<6}{:<18}{:>12}\n", tensor.name, kernels::type_name(tensor.type),
               formats::shape_text(tensor.shape), size_text(tensor.bytes));
}

Json to_json(const Checkpoint& checkpoint, bool has_tensors) {
  const ModelConfig& config = checkpoint.config();
  const WeightSummary weights = checkpoint.weights();
  Json::List types;
  for (const WeightSummary::OfType& type : weights.types)
    types.push_back({{"type", kernels::type_name(type.type)},
                     {"tensors", type.tensors},
                     {"parameters", type.parameters},
                     {"bytes", type.bytes}});
  const std::optional<std::string> chat_template = checkpoint.chat_template();
  Json result = {{"path", checkpoint.path().string()},
                 {"name", config.name},
                 {"architecture", config.architecture->name},
                 {"layers", config.layers},
                 {"hidden", config.hidden},
                 {"feed_forward", config.feed_forward},
                 {"heads", config.heads},
                 {"kv_heads", config.kv_heads},
                 {"head_size", config.head_size},
                 {"context", config.context},
                 {"window", config.window},
                 {"norm_epsilon", config.norm_epsilon},
                 {"rotary",
                  {{"size", config.rotary_size},
                   {"pairs", pairs_name(config.pairs)},
                   {"base", config.rope_theta},
                   {"scaling", scaling_name(config)}}},
                 {"vocabulary", config.vocabulary},
                 {"eos_ids", config.eos_ids},
                 {"tied_head", *config.is_tied},
                 {"notes", config.notes},
                 {"chat_template", chat_template ? Json(*chat_template) : Json()},
                 {"weights",
                  {{"tensors", weights.tensors},
                   {"parameters", weights.parameters},
                   {"bytes", weights.bytes},
                   {"types", types}}},
                 {"memory",
                  {{"weight_bytes", weights.bytes},
                   {"kv_bytes_per_token", kv_bytes_per_token(config)},
                   {"kv_bytes_full_context", context_bytes(config)}}}};
  if (has_tensors) {
    Json::List tensors;
    for (const Tensor& tensor : checkpoint.tensors())
      tensors.push_back({{"name", tensor.name},
                         {"type", kernels::type_name(tensor.type)},
                         {"shape", tensor.shape},
                         {"bytes", tensor.bytes}});
    result.add("tensors", std::move(tensors));
  }
  return result;
}

void inspect(const InspectChoices& choices) {
  const Checkpoint checkpoint = open_checkpoint(choices.model);
  if (choices.is_json)
    fmt::print("{}\n", to_json(checkpoint, choices.has_tensors).text(2));
  else
    print_text(checkpoint, choices.has_tensors);
}

}  // namespace

void add_inspect(Program& program) {
  Command command = program.command("inspect", "Describe a model and the memory it needs");
  command.footer(
      "Examples:\n  attacca inspect model.gguf\n  attacca inspect folder --tensors\n"
      "  attacca inspect model.gguf --json");
  const auto choices = std::make_shared<InspectChoices>();
  command
      .option("MODEL", file_name(choices->model),
              "A .gguf or .safetensors file, or a folder with config.json")
      .required();
  command.flag("--json", choices->is_json, "Print JSON");
  command.flag("--tensors", choices->has_tensors, "List every tensor too");
  command.action([choices] { inspect(*choices); });
}

}  // namespace attacca::tool
