// llama2c.cpp: reads a llama2.c checkpoint: seven numbers, then float32 tensors, for each kind
// those of all layers. RoPE rotates neighbouring elements, as in GGUF files, so no tensor is
// reordered or copied.
#include "formats/llama2c.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <cstdlib>
#include <system_error>
#include <tuple>

#include "formats/gguf_writer.hpp"
#include "formats/mapped_file.hpp"

namespace attacca::formats {

namespace {

constexpr std::int32_t kUnknown = 0, kBegin = 1, kEnd = 2;  // ids of the special tokens
enum class TokenKind : std::int32_t { normal = 1, unknown = 2, control = 3, byte = 6 };

/// Reads a file piece by piece. If it ends too soon, the message names the offset and the field.
class Cursor {
 public:
  explicit Cursor(const MappedFile& file) : file_(file) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw BadArgument(fmt::format("{}: byte {}: {}", file_.path().string(), offset_, why));
  }
  std::span<const std::byte> take(std::uint64_t count, const char* what) {
    if (count > left())
      fail(fmt::format("{} takes {} bytes and {} are left; the file is damaged or another format",
                       what, count, left()));
    offset_ += count;
    return file_.bytes().subspan(offset_ - count, count);
  }
  template <class T>
  T number(const char* what) {
    return gguf_detail::load<T>(take(sizeof(T), what).data());
  }
  std::uint64_t left() const { return file_.bytes().size() - offset_; }

 private:
  const MappedFile& file_;
  std::uint64_t offset_ = 0;
};

struct Header {
  std::uint32_t hidden, feed_forward, layers, heads, kv_heads, vocabulary, context;
  bool has_head;

  std::uint64_t head_size() const { return hidden / heads; }
  std::uint64_t keys() const { return kv_heads * head_size(); }
};

Header read_header(Cursor& cursor) {
  const auto size = [&](const char* what, std::uint32_t most) {
    const auto value = cursor.number<std::int32_t>(what);
    const auto magnitude = static_cast<std::uint32_t>(std::abs(std::int64_t{value}));
    // A negative vocabulary says that the head is a tensor of its own.
    const bool may_be_negative = std::string_view(what) == "vocab_size";
    if (magnitude == 0 || magnitude > most || (value < 0 && !may_be_negative))
      cursor.fail(fmt::format("{} before it is {}; 1 to {} is possible", what, value, most));
    return std::pair(magnitude, value < 0);
  };
  Header header{};
  header.hidden = size("dim", 1u << 17).first;
  header.feed_forward = size("hidden_dim", 1u << 20).first;
  header.layers = size("n_layers", 1u << 10).first;
  header.heads = size("n_heads", 1u << 10).first;
  header.kv_heads = size("n_kv_heads", 1u << 10).first;
  std::tie(header.vocabulary, header.has_head) = size("vocab_size", 1u << 24);
  header.context = size("seq_len", 1u << 24).first;
  if (header.hidden % header.heads != 0 || header.heads % header.kv_heads != 0)
    cursor.fail(
        fmt::format("dim {}, n_heads {}, n_kv_heads {}: each is to be a multiple of the next",
                    header.hidden, header.heads, header.kv_heads));
  return header;
}

void add_sizes(GgufWriter& writer, const Header& header, const std::string& name) {
  writer.set("general.architecture", "llama");
  writer.set("general.name", name);
  writer.set("llama.context_length", header.context);
  writer.set("llama.embedding_length", header.hidden);
  writer.set("llama.block_count", header.layers);
  writer.set("llama.feed_forward_length", header.feed_forward);
  writer.set("llama.attention.head_count", header.heads);
  writer.set("llama.attention.head_count_kv", header.kv_heads);
  writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set("llama.rope.dimension_count", static_cast<std::uint32_t>(header.head_size()));
  writer.set("llama.rope.freq_base", 10000.0f);
  writer.set("llama.vocab_size", header.vocabulary);
}

void add_tensors(GgufWriter& writer, const Header& h, Cursor& cursor) {
  using kernels::TensorType;
  const auto take = [&](const std::string& name, const std::vector<std::uint64_t>& shape) {
    const std::uint64_t bytes = tensor_bytes(TensorType::f32, shape).value_or(~std::uint64_t{0});
    writer.add(name, TensorType::f32, shape, cursor.take(bytes, name.c_str()));
  };
  const auto take_layers = [&](const char* name, const std::vector<std::uint64_t>& shape) {
    for (std::uint32_t layer = 0; layer < h.layers; ++layer)
      take(fmt::format("blk.{}.{}.weight", layer, name), shape);
  };
  take("token_embd.weight", {h.vocabulary, h.hidden});
  take_layers("attn_norm", {h.hidden});
  take_layers("attn_q", {h.hidden, h.hidden});
  take_layers("attn_k", {h.keys(), h.hidden});
  take_layers("attn_v", {h.keys(), h.hidden});
  take_layers("attn_output", {h.hidden, h.hidden});
  take_layers("ffn_norm", {h.hidden});
  take_layers("ffn_gate", {h.feed_forward, h.hidden});
  take_layers("ffn_down", {h.hidden, h.feed_forward});
  take_layers("ffn_up", {h.feed_forward, h.hidden});
  take("output_norm.weight", {h.hidden});
  const std::uint64_t table_bytes = h.context * (h.head_size() / 2) * sizeof(float);
  cursor.take(table_bytes, "freq_cis_real");  // cosines and sines; attacca computes its own
  cursor.take(table_bytes, "freq_cis_imag");
  if (h.has_head) take("output.weight", {h.vocabulary, h.hidden});
  if (cursor.left() != 0)
    cursor.fail(fmt::format("{} bytes follow the last tensor; another format?", cursor.left()));
}

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

/// SentencePiece writes a space as U+2581.
std::string with_space_marks(std::string_view text) {
  std::string result;
  for (const char letter : text)
    if (letter == ' ')
      result += "\u2581";
    else
      result += letter;
  return result;
}

void add_tokens(GgufWriter& writer, std::uint32_t vocabulary, Cursor& cursor) {
  cursor.number<std::int32_t>("max_token_length");
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (std::uint32_t id = 0; id < vocabulary; ++id) {
    const std::string what = fmt::format("token {}", id);
    scores.push_back(cursor.number<float>(what.c_str()));
    const auto length = cursor.number<std::int32_t>(what.c_str());
    if (length < 0) cursor.fail(fmt::format("the length of token {} before it is {}", id, length));
    const auto text =
        gguf_detail::text_of(cursor.take(static_cast<std::uint64_t>(length), what.c_str()));
    TokenKind kind = is_byte_token(text) ? TokenKind::byte : TokenKind::normal;
    if (id == kUnknown) kind = TokenKind::unknown;
    if (id == kBegin || id == kEnd) kind = TokenKind::control;
    kinds.push_back(static_cast<std::int32_t>(kind));
    // The exporter writes newlines around these two.
    tokens.push_back(id == kBegin ? "<s>" : id == kEnd ? "</s>" : with_space_marks(text));
  }
  if (cursor.left() != 0)
    cursor.fail(
        fmt::format("{} bytes follow the last of {} tokens; the tokenizer of another model?",
                    cursor.left(), vocabulary));
  writer.set("tokenizer.ggml.model", "llama");
  writer.set("tokenizer.ggml.tokens", tokens);
  writer.set("tokenizer.ggml.scores", scores);
  writer.set("tokenizer.ggml.token_type", kinds);
  writer.set("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(kBegin));
  writer.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(kEnd));
  writer.set("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(kUnknown));
  writer.set("tokenizer.ggml.add_bos_token", true);
  writer.set("tokenizer.ggml.add_eos_token", false);
  writer.set("tokenizer.ggml.add_space_prefix", true);
}

}  // namespace

void convert_llama2c(const std::filesystem::path& checkpoint,
                     const std::filesystem::path& tokenizer, const std::filesystem::path& output) {
  std::error_code is_new;
  for (const std::filesystem::path& input : {checkpoint, tokenizer})
    if (std::filesystem::equivalent(input, output, is_new))
      throw BadArgument(
          fmt::format("'{}' would be written over while it is read; name another "
                      "output",
                      output.string()));
  const MappedFile weights(checkpoint);
  const MappedFile tokens(tokenizer);
  Cursor weight_cursor(weights);
  Cursor token_cursor(tokens);
  GgufWriter writer;
  const Header header = read_header(weight_cursor);
  add_sizes(writer, header, checkpoint.stem().string());
  add_tensors(writer, header, weight_cursor);
  add_tokens(writer, header.vocabulary, token_cursor);
  writer.write(output);
}

}  // namespace attacca::formats
