// run_stats.hpp: reports of an engine's work, for people and for programs.
#pragma once

#include <attacca/llm.hpp>
#include <string>
#include <vector>

#include "json.hpp"

namespace attacca::tool {

/// A reply with its tokens, log-probabilities and times, or the reason it failed.
Json reply_json(const llm::Model& model, const llm::Reply& reply);

/// The text that a token adds behind others: with the blank that a text's first token would lose.
std::string token_text(const llm::Model& model, std::int32_t token);

/// What there is to know before the first step: what the model's files say that could surprise,
/// where the memory goes, which steps have graphs, and what multiplies each matrix. A line each.
std::string start_report(const llm::Model& model, const llm::Engine& engine);

/// Times, rates and how close decoding came to the memory floor, a line each. `threads`: of the
/// host that compute; 0: all cores.
std::string run_stats(const llm::Engine& engine, const std::vector<llm::Reply>& replies,
                      unsigned threads);

}  // namespace attacca::tool
