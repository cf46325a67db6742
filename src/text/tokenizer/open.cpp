// open.cpp: finds the tokenizer among a model's files and reads it.
#include "text/tokenizer/open.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include "core/in_quotes.hpp"
#include "formats/gguf.hpp"
#include "formats/mapped_file.hpp"
#include "text/tokenizer/pre_patterns.hpp"

namespace attacca::text {
namespace {

Tokenizer open_json(const std::filesystem::path& path) {
  const formats::MappedFile json(path);
  const std::filesystem::path beside = path.parent_path() / "tokenizer_config.json";
  const formats::MappedFile config =
      std::filesystem::exists(beside) ? formats::MappedFile(beside) : formats::MappedFile();
  return Tokenizer::from_json(json.text(), config.text(), path.string());
}

}  // namespace

Tokenizer open_tokenizer(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    const std::filesystem::path json = path / "tokenizer.json";
    if (!std::filesystem::exists(json))
      throw BadArgument(
          fmt::format("{} has no tokenizer.json; name a folder that has one, a "
                      "tokenizer.json or a GGUF file",
                      path.string()));
    return open_json(json);
  }
  if (formats::MappedFile(path).text().starts_with("GGUF"))
    return read_tokenizer(formats::GgufFile::open(path));
  return open_json(path);
}

Tokenizer read_tokenizer(const formats::GgufFile& file) {
  Vocabulary vocabulary;
  vocabulary.model = file.get<std::string>("tokenizer.ggml.model");
  vocabulary.pre = file.find<std::string>("tokenizer.ggml.pre").value_or("");
  vocabulary.tokens = file.get<std::vector<std::string_view>>("tokenizer.ggml.tokens");
  if (auto scores = file.find<std::vector<float>>("tokenizer.ggml.scores"))
    vocabulary.scores = *std::move(scores);
  if (auto types = file.find<std::vector<std::int32_t>>("tokenizer.ggml.token_type"))
    vocabulary.types = *std::move(types);
  if (auto merges = file.find<std::vector<std::string_view>>("tokenizer.ggml.merges"))
    vocabulary.merges = *std::move(merges);

  // Missing keys have the values of the tokenizers that GGUF was made for: Llama's, whose first
  // tokens are <unk>, <s> and </s>, and Llama 3's, which also puts BOS before a text.
  const bool is_llama = vocabulary.model == "llama" && vocabulary.tokens.size() > 2;
  const PrePattern* pre = find_pre_pattern(vocabulary.pre);
  const auto token = [&](const char* key, std::int32_t otherwise) {
    return file.find<std::int32_t>(key).value_or(is_llama ? otherwise : -1);
  };
  vocabulary.bos = token("tokenizer.ggml.bos_token_id", 1);
  vocabulary.eos = token("tokenizer.ggml.eos_token_id", 2);
  vocabulary.unknown = token("tokenizer.ggml.unknown_token_id", 0);
  vocabulary.pad = token("tokenizer.ggml.padding_token_id", -1);
  vocabulary.adds_bos = file.find<bool>("tokenizer.ggml.add_bos_token")
                            .value_or(is_llama || (pre && pre->ignores_merges));
  vocabulary.adds_eos = file.find<bool>("tokenizer.ggml.add_eos_token").value_or(false);
  vocabulary.adds_space_prefix = file.find<bool>("tokenizer.ggml.add_space_prefix").value_or(true);
  return Tokenizer::from_vocabulary(vocabulary, file.name());
}

void check_ids(const Tokenizer& tokenizer, std::uint32_t vocabulary, const std::string& where) {
  for (std::int64_t id = vocabulary; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(static_cast<std::int32_t>(id));
    if (piece.empty()) continue;  // a hole
    throw BadArgument(
        fmt::format("{}: token {} has the id {}, and the model's vocabulary ends at {}; use the "
                    "tokenizer that the model was trained with",
                    where, in_quotes(piece), id, vocabulary - 1));
  }
}

}  // namespace attacca::text
