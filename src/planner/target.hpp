// target.hpp: the engines that a plan can be for: how each chooses graphs, which sizes it has by
// default, and how its settings are written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/costs.hpp"
#include "planner/plan.hpp"
#include "planner/traffic.hpp"

namespace attacca::planner {

enum class Target : std::uint8_t { attacca, tensorrt_llm, vllm, sglang };
inline constexpr std::size_t kTargets = 4;
/// "attacca", "tensorrt-llm", "vllm", "sglang"
const char* target_name(Target target);

Rules rules_of(Target target);

/// What padding and misses cost in this engine, if nothing else is known. attacca's kernels skip
/// padding: on two Neoverse-V1 cores the decode steps of the embedded model cost -0.04 to 0.04 for
/// it, which is noise. It is not 0, so that less padding is still better. Without a graph a decode
/// step of an 8B model takes 1.16 times as long on an H200 (docs/performance.md).
CostOptions usual_costs(Target target);

/// Whether one list of sizes serves decode and mixed steps. Such an engine is planned with
/// `as_mixed` traffic, and has no decode sizes.
bool has_one_list(Target target);
/// The same steps and times, all of them mixed.
Traffic as_mixed(const Traffic& traffic);

/// vLLM's default: 1, 2, 4, then in steps of 8 below 256 and of 16 from there, up to twice the
/// slots, 512, or the tokens of a step.
std::vector<std::uint32_t> vllm_default_sizes(const Limits& limits);

/// The settings that make the engine capture these sizes, ready for its configuration file or its
/// command line. An empty list leaves the engine's default.
std::string settings_text(Target target, const Sizes& sizes);

}  // namespace attacca::planner
