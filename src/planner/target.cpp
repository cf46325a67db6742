// target.cpp: knows the names of settings of other engines. docs/plan.md says for which versions.
#include "planner/target.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attacca::planner {

namespace {

constexpr std::size_t kNoMost = 256;  // lists of other engines have no bound of their own

/// `name: [1, 2, 4]`, or nothing for an empty list.
std::string list_line(const char* name, const std::vector<std::uint32_t>& sizes) {
  return sizes.empty() ? "" : fmt::format("{}: [{}]\n", name, fmt::join(sizes, ", "));
}

}  // namespace

const char* target_name(Target target) {
  constexpr const char* kNames[] = {"attacca", "tensorrt-llm", "vllm", "sglang"};
  return kNames[static_cast<std::size_t>(target)];
}

Rules rules_of(Target target) {
  if (target == Target::attacca) return {};
  return {.decodes_may_use_mixed = false, .most_per_list = kNoMost};
}

CostOptions usual_costs(Target target) {
  if (target == Target::attacca) return {.padding = 0.05, .miss = 1.16};
  return {};
}

bool has_one_list(Target target) { return target == Target::vllm; }

Traffic as_mixed(const Traffic& traffic) {
  Traffic all = traffic;
  all.decode = {};
  for (const auto& [tokens, steps] : traffic.decode.counts) all.mixed.counts[tokens] += steps;
  for (const auto& [key, samples] : traffic.decode.times) {
    std::vector<float>& place = all.mixed.times[key];
    place.insert(place.end(), samples.begin(), samples.end());
  }
  return all;
}

std::vector<std::uint32_t> vllm_default_sizes(const Limits& limits) {
  const std::uint32_t most = std::min({limits.decode * 2, 512u, limits.mixed});
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t size = 1; size <= most; size += size < 8 ? size : size < 256 ? 8 : 16)
    sizes.push_back(size);
  return sizes;
}

std::string settings_text(Target target, const Sizes& sizes) {
  switch (target) {
    case Target::attacca:
      return list_line("decode-sizes", sizes.decode) + list_line("mixed-sizes", sizes.mixed);
    case Target::tensorrt_llm: {
      std::string text;
      if (!sizes.decode.empty())
        text += "cuda_graph_config:\n  enable_padding: true\n" +
                list_line("  batch_sizes", sizes.decode);
      if (!sizes.mixed.empty())
        text += "torch_compile_config:\n  enable_piecewise_cuda_graph: true\n" +
                list_line("  capture_num_tokens", sizes.mixed);
      return text;
    }
    case Target::vllm:
      return fmt::format("--compilation-config '{{\"cudagraph_capture_sizes\": [{}]}}'\n",
                         fmt::join(sizes.mixed, ", "));
    case Target::sglang: {
      std::string text;
      if (!sizes.decode.empty())
        text += fmt::format("--cuda-graph-bs {}\n", fmt::join(sizes.decode, " "));
      if (!sizes.mixed.empty())
        text += fmt::format("--piecewise-cuda-graph-tokens {}\n", fmt::join(sizes.mixed, " "));
      return text;
    }
  }
  return "";
}

}  // namespace attacca::planner
