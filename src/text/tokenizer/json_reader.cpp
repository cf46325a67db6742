// json_reader.cpp: builds the parts of a tokenizer from a tokenizer.json. Truncation and padding,
// which the file may ask for, are left to the caller.
#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/in_quotes.hpp"
#include "text/tokenizer/json_node.hpp"
#include "text/tokenizer/json_steps.hpp"
#include "text/tokenizer/parts.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::text {
namespace {

using nlohmann::json;

/// Ids may have holes, but a table of mostly holes is refused.
constexpr std::uint64_t kMostHoles = 65536;

class Reader {
 public:
  Reader(const json& root, std::string_view where)
      : root_(root, std::string(where)), model_(root_.at("model")) {}

  std::shared_ptr<TokenizerParts> read(std::string_view config) {
    check_model();
    if (const auto node = root_.find("normalizer")) parts_->normalizer = read_normalizer(*node);
    if (const auto node = root_.find("pre_tokenizer"))
      parts_->pre_tokenizer = read_pre_tokenizer(*node);
    if (const auto node = root_.find("decoder"))
      parts_->decoder = read_decoder(*node);
    else
      parts_->decoder.steps.emplace_back(Decoder::JoinWithSpaces{});
    read_tokens();
    read_bpe();
    if (const auto node = root_.find("post_processor")) read_post_processor(*node, 0);
    if (!config.empty()) read_config(config);
    return std::move(parts_);
  }

 private:
  void check_model() const {
    if (const auto type = model_.find("type"); type && type->text() != "BPE")
      type->refuse("attacca knows the model BPE");
    const auto dropout = model_.find("dropout");
    if (dropout && dropout->value() != 0.0) dropout->refuse("attacca knows no dropout; use null");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto node = model_.find(affix);
      if (node && !node->text().empty()) node->refuse("attacca knows no affixes; use null");
    }
  }

  std::int32_t checked_id(const JsonNode& node, std::uint64_t count) const {
    if (node.number() >= count + kMostHoles)
      node.refuse(fmt::format("too large an id for a tokenizer of {} tokens", count));
    return static_cast<std::int32_t>(node.number());
  }

  /// Fills the table from model.vocab and added_tokens.
  void read_tokens() {
    const JsonNode vocab = model_.at("vocab");
    if (!vocab.value().is_object()) vocab.refuse("an object is expected");
    const auto added = root_.find("added_tokens");
    const std::size_t count = vocab.value().size() + (added ? added->length() : 0);
    parts_->tokens.reserve(count);

    for (const auto& [spelling, value] : vocab.value().items()) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= count + kMostHoles) {
        throw BadArgument(fmt::format("{} gives {} the id {}; ids are whole numbers, below {} here",
                                      vocab.place(), in_quotes(spelling),
                                      value.is_structured() ? value.type_name() : value.dump(),
                                      count + kMostHoles));
      }
      const auto id = static_cast<std::int32_t>(value.get<std::uint64_t>());
      if (parts_->tokens.has(id))
        throw BadArgument(fmt::format("{} gives the id {} to both {} and {}", vocab.place(), id,
                                      in_quotes(parts_->tokens.spelling(id)), in_quotes(spelling)));
      parts_->tokens.add(id, spelling);
    }
    read_added(added, count);
  }

  void read_added(const std::optional<JsonNode>& nodes, std::size_t count) {
    std::vector<AddedToken> added;
    const auto add = [&](const JsonNode& node) {
      const JsonNode content = node.at("content");
      AddedToken token{.id = checked_id(node.at("id"), count),
                       .text = content.text(),
                       .is_special = node.truth_or("special", false),
                       .strips_left = node.truth_or("lstrip", false),
                       .strips_right = node.truth_or("rstrip", false),
                       .is_single_word = node.truth_or("single_word", false),
                       .is_normalized = node.truth_or("normalized", false)};
      if (token.text.empty()) return;
      if (token.text.size() > kMostAddedTokenBytes)
        content.refuse(
            fmt::format("{} bytes; at most {}", token.text.size(), kMostAddedTokenBytes));
      const std::optional<std::int32_t> known = parts_->tokens.find(token.text);
      if (known && *known != token.id)
        content.refuse(fmt::format("its id is {} here, and {} before", token.id, *known));
      if (!known && parts_->tokens.has(token.id))
        content.refuse(fmt::format("its id {} is that of {}", token.id,
                                   in_quotes(parts_->tokens.spelling(token.id))));
      if (!known) parts_->tokens.add(token.id, token.text);
      added.push_back(std::move(token));
    };
    if (nodes) nodes->for_each(add);
    parts_->is_special.resize(static_cast<std::size_t>(parts_->tokens.size()));
    for (const AddedToken& token : added)
      if (token.is_special) parts_->is_special[static_cast<std::size_t>(token.id)] = true;
    parts_->set_added(std::move(added));
  }

  void read_bpe() {
    BpeOptions options{.ignores_merges = model_.truth_or("ignore_merges", false),
                       .has_byte_fallback = model_.truth_or("byte_fallback", false),
                       .fuses_unknown = model_.truth_or("fuse_unk", false)};
    if (const auto unknown = model_.find("unk_token")) {
      options.unknown = parts_->tokens.find(unknown->text()).value_or(-1);
      if (options.unknown < 0) unknown->refuse("it is not in the vocabulary");
    }
    parts_->unknown = options.unknown;
    parts_->bpe.emplace(parts_->tokens, options, parts_->is_special);

    const JsonNode merges = model_.at("merges");
    if (!merges.value().is_array()) merges.refuse("an array is expected");
    parts_->bpe->reserve_merges(merges.value().size());
    std::uint32_t rank = 0;
    std::string joined;
    for (const json& merge : merges.value()) {
      const auto [left, right] = sides(merge, rank);
      joined.assign(left).append(right);
      // Look up the left side first: a message names the first side that is no token.
      const std::int32_t left_id = merged(left, rank);
      const std::int32_t right_id = merged(right, rank);
      parts_->bpe->add_merge(rank, left_id, right_id, merged(joined, rank));
      ++rank;
    }
  }

  /// The two sides of a merge: "left right" or ["left", "right"].
  std::pair<std::string_view, std::string_view> sides(const json& merge, std::uint32_t rank) const {
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
        return {text.substr(0, space), text.substr(space + 1)};
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
    }
    throw BadArgument(fmt::format(
        "{}: model.merges[{}] is {}; 'left right' or two strings are expected", root_.place(), rank,
        merge.is_string() ? in_quotes(merge.get_ref<const std::string&>()) : merge.type_name()));
  }

  std::int32_t merged(std::string_view token, std::uint32_t rank) const {
    if (const auto id = parts_->tokens.find(token)) return *id;
    throw BadArgument(fmt::format("{}: model.merges[{}] names {}, which is not in the vocabulary",
                                  root_.place(), rank, in_quotes(token)));
  }

  void read_post_processor(const JsonNode& node, int depth) {
    constexpr int kMostNesting = 16;
    const JsonNode type = node.at("type");
    if (type.text() == "ByteLevel") return;  // it only changes offsets, and attacca keeps none
    if (type.text() == "Sequence") {
      if (depth == kMostNesting) node.refuse(fmt::format("nested deeper than {}", kMostNesting));
      return node.at("processors").for_each([&](const JsonNode& item) {
        read_post_processor(item, depth + 1);
      });
    }
    if (type.text() != "TemplateProcessing")
      type.refuse("attacca knows the post-processors TemplateProcessing, ByteLevel and Sequence");
    std::vector<std::int32_t> before;
    bool is_before = true;
    node.at("single").for_each([&](const JsonNode& item) {
      if (item.find("Sequence")) {
        if (!is_before) item.refuse("the text is there twice");
        is_before = false;
        return;
      }
      const std::string name = item.at("SpecialToken").at("id").text();
      const JsonNode special = node.at("special_tokens").at(name.c_str());
      special.at("ids").for_each([&](const JsonNode& id) {
        if (id.number() > static_cast<std::uint64_t>(parts_->tokens.size()) ||
            !parts_->tokens.has(static_cast<std::int32_t>(id.number())))
          id.refuse("there is no such token");
        (is_before ? before : parts_->suffix).push_back(static_cast<std::int32_t>(id.number()));
      });
    });
    parts_->prefix.insert(parts_->prefix.begin(), before.begin(), before.end());
  }

  /// Reads from tokenizer_config.json which tokens begin and end a text.
  void read_config(std::string_view text) {
    const json parsed = parse_tokenizer_json(text, "tokenizer_config.json");
    const JsonNode config(parsed, "tokenizer_config.json");
    const auto find = [&](const char* key, bool is_needed) -> std::int32_t {
      const auto node = config.find(key);
      if (!node) return -1;
      const std::string spelling = node->value().is_object() ? node->at("content").text()  //
                                                             : node->text();
      const std::int32_t id = parts_->tokens.find(spelling).value_or(-1);
      if (id < 0 && is_needed)
        node->refuse(fmt::format("{} is not in the vocabulary", in_quotes(spelling)));
      return id;
    };
    parts_->bos = find("bos_token", true);
    parts_->eos = find("eos_token", true);
    parts_->pad = find("pad_token", false);
    if (parts_->unknown < 0) parts_->unknown = find("unk_token", false);
  }

  JsonNode root_;
  JsonNode model_;
  std::shared_ptr<TokenizerParts> parts_ = std::make_shared<TokenizerParts>();
};

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view text, std::string_view config,
                               std::string_view where) {
  const json root = parse_tokenizer_json(text, where);
  return Tokenizer(Reader(root, where).read(config));
}

}  // namespace attacca::text
