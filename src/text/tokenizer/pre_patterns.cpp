// pre_patterns.cpp: the table of patterns, copied from the models' tokenizer.json.
#include "text/tokenizer/pre_patterns.hpp"

#include <algorithm>

#include "text/tokenizer/pre_tokenizer.hpp"

namespace attacca::text {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<PrePattern>& all() {
  static const std::vector<PrePattern> kAll = {
      {{"gpt-2", "default", "mpt", "olmo", "phi-2"}, {kGpt2Pattern}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3"}, {kLlama3}, true},
      {{"dbrx", "smaug-bpe"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen"}, {kQwen2}, false, true},
      {{"smollm", "starcoder", "refact", "command-r"}, {"\\p{N}", kGpt2Pattern}},
      {{"falcon"}, {"[!-/:-@\\[-`{-~\\p{P}]+", kGpt2Pattern, "[0-9][0-9][0-9]"}},
      {{"deepseek-coder"},
       {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
        "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+", "\\p{N}"}},
      {{"deepseek-v3"},
       {"\\p{N}{1,3}", "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+", kDeepseekV3}},
      {{"tekken"}, {kTekken}, true},
      {{"gpt-4o", "llama4"}, {kGpt4o}},
  };
  return kAll;
}

}  // namespace

const PrePattern* find_pre_pattern(std::string_view name) {
  for (const PrePattern& pattern : all()) {
    const auto& names = pattern.names;
    if (std::find(names.begin(), names.end(), name) != names.end()) return &pattern;
  }
  return nullptr;
}

std::string known_pre_patterns() {
  std::string names;
  for (const PrePattern& pattern : all())
    for (const std::string_view name : pattern.names)
      names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

}  // namespace attacca::text
