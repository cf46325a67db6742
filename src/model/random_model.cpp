// random_model.cpp: writes the header of a GGUF file first; then threads make pieces of tensors and
// write each to its place.
#include "model/random_model.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "formats/gguf_writer.hpp"
#include "kernels/random_fill.hpp"
#include "model/random_blocks.hpp"

namespace attacca::model {

using kernels::TensorType;

namespace {

constexpr std::uint64_t kPieceBytes = 4u << 20;
constexpr std::int32_t kUnused = 5;  // a token's type in GGUF files
constexpr float kUnusedScore = -1e9f;
/// The standard deviation of logits. With a vocabulary of 100,000 a few tokens then hold most of
/// the probability, as in a trained model. With a deviation of 1 all tokens would be about equally
/// probable.
constexpr float kLogitDeviation = 3;

/// Where links lead, whether there is a file or not.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;
  std::error_code failure;
  for (int links = 0; links < kMostLinks && is_symlink(path, failure); ++links)
    path = path.parent_path() / read_symlink(path);
  return path;
}

/// A file that is written under the name "PATH.part" and renamed when it is complete. A link stays,
/// and the file that it leads to is replaced; anything else that is no file is refused.
class UnfinishedFile {
 public:
  UnfinishedFile(const std::filesystem::path& path, std::uint64_t bytes)
      : path_(behind_links(path)), part_(path_.string() + ".part") {
    if (exists(path_) && !is_regular_file(path_))
      throw BadArgument(fmt::format("'{}' is {}; name a file", path.string(),
                                    is_directory(path_) ? "a folder" : "no regular file"));
    descriptor_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(errno);
    std::error_code unknown;
    const std::filesystem::space_info space = std::filesystem::space(part_, unknown);
    if (!unknown && space.available < bytes) {
      discard();
      throw Error(fmt::format(
          "cannot write '{}': it takes {:.2f} GB and its disk has {:.2f} GB free; choose a smaller "
          "shape, a smaller type or another disk",
          path_.string(), static_cast<double>(bytes) / 1e9,
          static_cast<double>(space.available) / 1e9));
    }
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  ~UnfinishedFile() { discard(); }

  /// Thread-safe.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ::ssize_t done =
          ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail(errno);
      offset += static_cast<std::uint64_t>(done);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }
  /// Gives the file its size and its name.
  void finish(std::uint64_t bytes) {
    if (::ftruncate(descriptor_, static_cast<::off_t>(bytes)) != 0) fail(errno);
    if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
    std::error_code failure;
    std::filesystem::rename(part_, path_, failure);
    if (failure) fail(failure.value());
    is_finished_ = true;
  }

 private:
  [[noreturn]] void fail(int reason) const {
    throw Error(fmt::format("cannot write '{}': {}", path_.string(),
                            std::generic_category().message(reason)));
  }
  void discard() {
    if (is_finished_) return;
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    std::error_code ignored;
    std::filesystem::remove(part_, ignored);
  }

  std::filesystem::path path_;
  std::filesystem::path part_;
  int descriptor_ = -1;
  bool is_finished_ = false;
};

void set_sizes(formats::GgufWriter& writer, const ModelConfig& c) {
  const auto set = [&](const char* name, auto value) {
    writer.set(fmt::format("{}.{}", c.architecture->name, name), value);
  };
  writer.set("general.architecture", c.architecture->name);
  writer.set("general.name", c.name + " with random weights");
  set("vocab_size", c.vocabulary);
  set("context_length", c.context);
  set("embedding_length", c.hidden);
  set("block_count", c.layers);
  set("feed_forward_length", c.feed_forward);
  set("attention.head_count", c.heads);
  set("attention.head_count_kv", c.kv_heads);
  set("attention.key_length", c.head_size);
  set("attention.value_length", c.head_size);
  set("attention.layer_norm_rms_epsilon", c.norm_epsilon);
  set("rope.dimension_count", c.rotary_size);
  set("rope.freq_base", static_cast<float>(c.rope_theta));
}

void set_tokenizer(formats::GgufWriter& writer, const ModelConfig& config,
                   const formats::GgufFile& from) {
  auto tokens = from.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  if (tokens.size() > config.vocabulary)
    throw BadArgument(
        fmt::format("the tokenizer of {} has {} tokens and {} a vocabulary of {}; use a smaller "
                    "tokenizer or a larger shape",
                    from.name(), tokens.size(), config.name, config.vocabulary));
  for (std::uint64_t id = tokens.size(); id < config.vocabulary; ++id)
    tokens.push_back(fmt::format("<reserved_{}>", id));
  for (const auto& [key, value] : from.metadata()) {
    if (!key.starts_with("tokenizer.")) continue;
    if (key == "tokenizer.ggml.tokens") {
      writer.set(key, tokens);
    } else if (key == "tokenizer.ggml.scores") {
      auto scores = from.get<std::vector<float>>(key);
      scores.resize(config.vocabulary, kUnusedScore);
      writer.set(key, scores);
    } else if (key == "tokenizer.ggml.token_type") {
      auto types = from.get<std::vector<std::int32_t>>(key);
      types.resize(config.vocabulary, kUnused);
      writer.set(key, types);
    } else {
      writer.set(key, value);
    }
  }
}

void declare_tensors(formats::GgufWriter& writer, const RandomModel& model) {
  const ModelConfig& config = model.config;
  for (const TensorRule& rule : config.architecture->tensors) {
    const bool is_head = std::string_view(rule.name) == "output.weight";
    if (rule.is_optional && !(is_head && !config.is_tied.value_or(false))) continue;
    std::vector<std::uint64_t> shape;
    for (const Size size : rule.shape) shape.push_back(size_in(config, size));
    const TensorType type =
        shape.size() == 1 ? TensorType::f32 : stored_type(model.weights, shape.back());
    for (std::uint32_t layer = 0; layer < (rule.is_per_layer() ? config.layers : 1); ++layer)
      writer.declare(rule.name_in(layer), type, shape);
  }
}

/// The deviation of a matrix. With 1 / sqrt(columns) a product keeps the size of its input. A tied
/// embedding has that too: it must be small beside the layers' outputs, or every token would be the
/// most probable one to follow itself.
float deviation_of(const formats::Tensor& tensor, const ModelConfig& config) {
  if (tensor.name == "token_embd.weight" && !config.is_tied.value_or(false)) return 1;
  return 1 / std::sqrt(static_cast<float>(tensor.shape.back()));
}

/// The value of all elements of a norm's weights or a bias.
float value_of(const formats::Tensor& tensor) {
  if (tensor.name == "output_norm.weight") return kLogitDeviation;
  return tensor.name.ends_with(".bias") ? 0 : 1;
}

/// Part of a tensor that one thread makes and writes.
struct Piece {
  const formats::Tensor* tensor;
  std::uint64_t number;  // of the tensor in the file
  std::uint64_t group;   // the piece's first
  std::uint64_t offset;  // in the file
  std::uint64_t bytes;
};

std::vector<Piece> pieces_of(const std::vector<formats::Tensor>& tensors,
                             const std::vector<std::uint64_t>& offsets) {
  std::vector<Piece> pieces;
  for (std::uint64_t number = 0; number < tensors.size(); ++number) {
    const formats::Tensor& tensor = tensors[number];
    const std::uint64_t group_bytes = kernels::row_bytes(tensor.type, RandomBlocks::kGroup);
    const std::uint64_t groups = kPieceBytes / group_bytes;
    for (std::uint64_t first = 0; first * group_bytes < tensor.bytes; first += groups)
      pieces.push_back({&tensor, number, first, offsets[number] + first * group_bytes,
                        std::min(groups * group_bytes, tensor.bytes - first * group_bytes)});
  }
  return pieces;
}

void make(const Piece& piece, const RandomModel& model, std::span<std::byte> to) {
  if (piece.tensor->shape.size() == 1) {
    const float value = value_of(*piece.tensor);
    for (; !to.empty(); to = to.subspan(sizeof value)) std::memcpy(to.data(), &value, sizeof value);
    return;
  }
  const std::uint64_t seed = kernels::mixed(kernels::mixed(model.seed) + piece.number);
  RandomBlocks(piece.tensor->type, seed, deviation_of(*piece.tensor, model.config))
      .fill(piece.group, to);
}

/// Hands pieces to threads; the calling thread works too. The first failure ends all of them.
void write_pieces(const std::vector<Piece>& pieces, const RandomModel& model,
                  const UnfinishedFile& file, std::uint64_t bytes,
                  const formats::Progress& progress) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> written = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](bool is_caller) {
    try {
      std::vector<std::byte> buffer(kPieceBytes);
      for (std::size_t at = next++; at < pieces.size(); at = next++) {
        const std::span<std::byte> made(buffer.data(), pieces[at].bytes);
        make(pieces[at], model, made);
        file.write(pieces[at].offset, made);
        written += made.size();
        if (is_caller && progress) progress("writing weights", written, bytes);
      }
    } catch (...) {
      next = pieces.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const unsigned count =
        model.threads ? model.threads : std::max(1u, std::thread::hardware_concurrency());
    for (unsigned at = 1; at < count; ++at) threads.emplace_back(work, false);
    work(true);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<std::string> weight_type_names() {
  std::vector<std::string> names;
  for (unsigned at = 0; at < kernels::kTensorTypes; ++at)
    for (std::string& name = names.emplace_back(kernels::type_name(static_cast<TensorType>(at)));
         char& letter : name)
      letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return names;
}

TensorType weight_type_called(const std::string& name) {
  const std::vector<std::string> names = weight_type_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadArgument(fmt::format("no type of weights '{}'; use {}", name, fmt::join(names, ", ")));
  return static_cast<TensorType>(found - names.begin());
}

TensorType stored_type(TensorType wanted, std::uint64_t columns) {
  for (const TensorType type : {wanted, TensorType::q8_0})
    if (columns % kernels::block_shape(type).elements == 0) return type;
  return TensorType::bf16;
}

void write_random_model(const RandomModel& model, const formats::GgufFile& tokenizer,
                        const std::filesystem::path& output, const formats::Progress& progress) {
  formats::GgufWriter writer;
  set_sizes(writer, model.config);
  set_tokenizer(writer, model.config, tokenizer);
  declare_tensors(writer, model);
  const formats::GgufWriter::Layout layout = writer.layout();
  UnfinishedFile file(output, layout.bytes);
  file.write(0, std::as_bytes(std::span(layout.header)));
  write_pieces(pieces_of(writer.tensors(), layout.offsets), model, file, layout.bytes, progress);
  file.finish(layout.bytes);
}

}  // namespace attacca::model
