// json_steps.cpp: builds normalizers, pre-tokenizers and decoders from a tokenizer.json.
#include "text/tokenizer/json_steps.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace attacca::text {
namespace {

constexpr int kMostNesting = 16;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

constexpr std::size_t kMostSteps = 64;

void check_size(const JsonNode& node, int depth, std::size_t steps) {
  if (depth > kMostNesting) node.refuse(fmt::format("nested deeper than {}", kMostNesting));
  if (steps > kMostSteps) node.refuse(fmt::format("the chain has more than {} steps", kMostSteps));
}

Regex read_pattern(const JsonNode& node) {
  const JsonNode pattern = node.at("pattern");
  if (pattern.is_text()) return Regex::literal(pattern.text(), pattern.place());
  if (const auto text = pattern.find("String")) return Regex::literal(text->text(), text->place());
  if (const auto regex = pattern.find("Regex")) return Regex(regex->text(), regex->place());
  pattern.refuse("a 'String' or a 'Regex' is expected");
}

SplitBehavior read_behavior(const JsonNode& node) {
  const std::string& name = node.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  node.refuse("attacca knows Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

enum class PrependScheme { always, first, never };

PrependScheme read_scheme(const JsonNode& node) {
  if (!node.truth_or("add_prefix_space", true)) return PrependScheme::never;
  const std::string scheme = node.text_or("prepend_scheme", "always");
  if (scheme == "always") return PrependScheme::always;
  if (scheme == "first") return PrependScheme::first;
  if (scheme == "never") return PrependScheme::never;
  node.at("prepend_scheme").refuse("attacca knows always, first and never");
}

bool is_one_character(std::string_view text) {
  return !text.empty() && first_character(text).length == text.size();
}

std::string read_mark(const JsonNode& node) {
  std::string mark = node.text_or("replacement", kSpaceMark);
  if (!is_one_character(mark)) node.at("replacement").refuse("one character is expected");
  return mark;
}

void add_normalizer(const JsonNode& node, int depth, std::vector<Normalizer::Step>& steps) {
  check_size(node, depth, steps.size());
  const JsonNode type = node.at("type");
  const std::string& name = type.text();
  if (name == "Sequence") {
    node.at("normalizers").for_each([&](const JsonNode& item) {
      add_normalizer(item, depth + 1, steps);
    });
  } else if (name == "NFC") {
    steps.emplace_back(NormalForm::nfc);
  } else if (name == "NFD") {
    steps.emplace_back(NormalForm::nfd);
  } else if (name == "NFKC") {
    steps.emplace_back(NormalForm::nfkc);
  } else if (name == "NFKD") {
    steps.emplace_back(NormalForm::nfkd);
  } else if (name == "Lowercase") {
    steps.emplace_back(Normalizer::Lowercase{});
  } else if (name == "Replace") {
    steps.emplace_back(Normalizer::Replace{read_pattern(node), node.at("content").text()});
  } else if (name == "Prepend") {
    steps.emplace_back(Normalizer::Prepend{node.at("prepend").text()});
  } else if (name == "Strip") {
    steps.emplace_back(Normalizer::Strip{node.truth_or("strip_left", true),  //
                                         node.truth_or("strip_right", true)});
  } else {
    type.refuse(
        "attacca knows the normalizers NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip "
        "and Sequence");
  }
}

void add_pre_tokenizer(const JsonNode& node, int depth, std::vector<PreTokenizer::Step>& steps) {
  check_size(node, depth, steps.size());
  const JsonNode type = node.at("type");
  const std::string& name = type.text();
  const auto split = [&](std::string_view pattern, SplitBehavior behavior, bool is_inverted) {
    steps.emplace_back(PreTokenizer::Split{Regex(pattern, node.place()), behavior, is_inverted});
  };
  if (name == "Sequence") {
    node.at("pretokenizers").for_each([&](const JsonNode& item) {
      add_pre_tokenizer(item, depth + 1, steps);
    });
  } else if (name == "ByteLevel") {
    if (node.truth_or("add_prefix_space", true)) steps.emplace_back(PreTokenizer::Prefix{" "});
    if (node.truth_or("use_regex", true)) split(kGpt2Pattern, SplitBehavior::isolated, false);
    // A second step that spells bytes would double the text again.
    if (std::any_of(steps.begin(), steps.end(), [](const PreTokenizer::Step& step) {
          return std::holds_alternative<PreTokenizer::SpellBytes>(step);
        }))
      type.refuse("it is there twice");
    steps.emplace_back(PreTokenizer::SpellBytes{});
  } else if (name == "Split") {
    steps.emplace_back(PreTokenizer::Split{read_pattern(node), read_behavior(node.at("behavior")),
                                           node.truth_or("invert", false)});
  } else if (name == "Digits") {
    split("\\p{N}",
          node.truth_or("individual_digits", false) ? SplitBehavior::isolated
                                                    : SplitBehavior::contiguous,
          false);
  } else if (name == "Punctuation") {
    const auto behavior = node.find("behavior");
    split("[!-/:-@\\[-`{-~\\p{P}]", behavior ? read_behavior(*behavior) : SplitBehavior::isolated,
          false);
  } else if (name == "Whitespace") {
    split("[\\w\\u200c\\u200d]+|[^\\w\\s\\u200c\\u200d]+", SplitBehavior::removed, true);
  } else if (name == "WhitespaceSplit") {
    split("\\s", SplitBehavior::removed, false);
  } else if (name == "Metaspace") {
    const std::string mark = read_mark(node);
    const PrependScheme scheme = read_scheme(node);
    steps.emplace_back(PreTokenizer::ReplaceSpaces{mark});
    if (scheme != PrependScheme::never)
      steps.emplace_back(PreTokenizer::Prefix{mark, scheme == PrependScheme::first});
    if (node.truth_or("split", true))
      steps.emplace_back(PreTokenizer::Split{Regex::literal(mark, node.place()),
                                             SplitBehavior::merged_with_next, false});
  } else {
    type.refuse(
        "attacca knows the pre-tokenizers ByteLevel, Split, Digits, Punctuation, Whitespace, "
        "WhitespaceSplit, Metaspace and Sequence");
  }
}

void add_decoder(const JsonNode& node, int depth, bool* is_fused,
                 std::vector<Decoder::Step>& steps) {
  check_size(node, depth, steps.size());
  const JsonNode type = node.at("type");
  const std::string& name = type.text();
  if (name == "Sequence") {
    node.at("decoders").for_each([&](const JsonNode& item) {
      add_decoder(item, depth + 1, is_fused, steps);
    });
    return;
  }
  if (*is_fused && name != "Strip" && name != "Fuse")
    type.refuse("after ByteLevel or Fuse attacca knows only Strip");
  if (name == "ByteLevel") {
    steps.emplace_back(Decoder::ByteLevel{});
  } else if (name == "ByteFallback") {
    steps.emplace_back(Decoder::ByteFallback{});
  } else if (name == "Metaspace") {
    steps.emplace_back(
        Decoder::Metaspace{read_mark(node), read_scheme(node) != PrependScheme::never});
  } else if (name == "Replace") {
    steps.emplace_back(Decoder::Replace{read_pattern(node), node.at("content").text()});
  } else if (name == "Fuse") {
    steps.emplace_back(Decoder::Fuse{});
  } else if (name == "Strip") {
    const JsonNode content = node.at("content");
    if (!is_one_character(content.text())) content.refuse("one character is expected");
    steps.emplace_back(Decoder::Strip{content.text(), node.number_or("start", 0),
                                      node.number_or("stop", 0), *is_fused});
  } else {
    type.refuse(
        "attacca knows the decoders ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip and "
        "Sequence");
  }
  *is_fused = *is_fused || name == "ByteLevel" || name == "Fuse";
}

}  // namespace

Normalizer read_normalizer(const JsonNode& node) {
  Normalizer result;
  add_normalizer(node, 0, result.steps);
  return result;
}

PreTokenizer read_pre_tokenizer(const JsonNode& node) {
  PreTokenizer result;
  add_pre_tokenizer(node, 0, result.steps);
  return result;
}

Decoder read_decoder(const JsonNode& node) {
  Decoder result;
  bool is_fused = false;
  add_decoder(node, 0, &is_fused, result.steps);
  return result;
}

}  // namespace attacca::text
