// `attacca score`: how probable a model finds a text.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "command.hpp"
#include "core/counted.hpp"
#include "input.hpp"
#include "json.hpp"
#include "llm/models.hpp"
#include "llm/run_stats.hpp"
#include "progress.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using llm::TokenLogprob;

struct ScoreSettings {
  std::string model;
  std::string file;
  bool is_summary = false;
  EngineFlags flags;
};

/// Pieces as long as a sequence can be, each scored by itself.
std::vector<TokenLogprob> score_all(llm::Engine& engine, const std::vector<std::int32_t>& tokens) {
  std::vector<TokenLogprob> scores;
  ProgressBar bar;
  const std::size_t piece = engine.longest_sequence();
  for (std::size_t first = 0; first + 1 < tokens.size(); first += piece) {
    bar.show("scoring", first, tokens.size());
    const std::size_t size = std::min(piece, tokens.size() - first);
    if (size < 2) break;
    const auto part = engine.score({tokens.data() + first, size});
    scores.insert(scores.end(), part.begin(), part.end());
  }
  return scores;
}

void score(ScoreSettings& settings) {
  const llm::EngineOptions options = engine_options(settings.flags);
  const llm::Model model = open_model(settings.model);
  const std::vector<std::int32_t> tokens = model.tokenize(read_text("--text", settings.file));
  if (tokens.size() < 2)
    throw BadArgument(fmt::format("--text {}: it has {}; scoring needs 2 or more", settings.file,
                                  counted(tokens.size(), "token")));
  llm::Engine engine(model, options);
  if (engine.longest_sequence() < 2)
    throw BadArgument("--context 1: a token is scored by those before it; give 2 or more");
  const std::vector<TokenLogprob> scores = score_all(engine, tokens);
  double sum = 0;
  for (const TokenLogprob& entry : scores) sum += entry.logprob;
  const double mean = sum / static_cast<double>(scores.size());
  Json json = {{"model", model.name()},
               {"tokens", tokens.size()},
               {"scored", scores.size()},
               {"logprob", sum},
               {"perplexity", std::exp(-mean)}};
  if (!settings.is_summary) {
    Json::List logprobs;
    for (const TokenLogprob& entry : scores)
      logprobs.push_back({{"token", entry.token},
                          {"text", token_text(model, entry.token)},
                          {"logprob", entry.logprob}});
    json.add("logprobs", std::move(logprobs));
  }
  fmt::print("{}\n", json.text(2));
}

}  // namespace

void add_score(Program& program) {
  auto settings = std::make_shared<ScoreSettings>();
  Command command =
      program.command("score", "Print log-probabilities and perplexity of a text as JSON");
  command.footer(
      "The first token of the text has no score: nothing comes before it. A text longer than the\n"
      "context, or than --pages can hold, is scored in pieces.\n"
      "Example:\n"
      "  attacca score small --text README.md --summary");
  command
      .option("model", file_name(settings->model),
              "small, a name of attacca pull --list, or a path")
      .required();
  command.option("--text", file_name(settings->file), "the file to score; - is standard input")
      .required();
  command.flag("--summary", settings->is_summary, "leave the single tokens out");
  add_engine_flags(command, settings->flags);
  command.action([settings] { score(*settings); });
}

}  // namespace attacca::tool
