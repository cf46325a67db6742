// run_stats.hpp: what `attacca run` tells of an engine's work, for people and for programs.
#pragma once

#include <attacca/llm.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attacca::tool {

/// A reply with its tokens, log-probabilities and times.
nlohmann::ordered_json reply_json(const llm::Model& model, const llm::Reply& reply);

/// For every step the engine can form, whether it has a graph, a line each.
std::string graph_report(const llm::Engine& engine);

/// Times, rates and how close decoding came to the memory floor, a line each.
std::string run_stats(const llm::Engine& engine, const std::vector<llm::Reply>& replies);

}  // namespace attacca::tool
