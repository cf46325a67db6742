// llm.hpp: a language model inside a program.
//
//   attacca::llm::Model model("models/attacca-small.gguf");
//   attacca::llm::Engine engine(model);
//   attacca::llm::Reply reply = engine.generate({.prompt = "Once upon a time"});
//   std::puts(reply.text.c_str());
//
// Link attacca::llm. Requests given together are batched: each step computes one token of every
// running sequence and chunks of prompts that are not yet read.
#pragma once

#include <array>
#include <attacca/device.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attacca::llm {

/// Told what is being done and how much of how much is done, in units of that thing.
using Progress = std::function<void(std::string_view what, std::uint64_t done, std::uint64_t all)>;

/// One turn of a conversation.
struct Message {
  std::string role;  // "system", "user" or "assistant", as the model's template knows them
  std::string content;
};

/// How the next token is chosen. The default is the most probable one.
struct Sampling {
  float temperature = 0;
  int top_k = 0;  // 0: all tokens
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;  // 0.01 to 100
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint64_t seed = 0;  // the same seed and prompt give the same text, whatever else runs
  // Token, added to its logit; of at most 1024 tokens.
  std::vector<std::pair<std::int32_t, float>> bias = {};
  std::vector<std::int32_t> allowed = {};  // only these tokens can be chosen; empty: all
};

namespace detail {
struct ModelData;
class EngineCore;
}  // namespace detail

/// A model's files, opened: weights (mapped, not read), tokenizer, chat template. A cheap value;
/// copies share the files. Thread-safe.
class Model {
 public:
  /// `path`: a .gguf file, a .safetensors file, or a folder as published for transformers; empty
  /// for the embedded model.
  explicit Model(const std::string& path, const Progress& progress = {});

  const std::string& name() const;
  std::size_t context() const;  // the longest sequence it was made for
  std::size_t vocabulary() const;
  /// Weights that each token of a prompt is multiplied with: all but embedding and head.
  std::size_t parameters_per_token() const;
  /// Whether the files have one; `chat` says what is wrong with it, if anything is.
  bool has_chat_template() const;
  /// What the files say that could surprise: keys that nobody knows, a head that is not the one
  /// promised, a chat template that cannot be used. A sentence each.
  const std::vector<std::string>& notes() const;
  /// What its makers advise; greedy where they do not say.
  Sampling advised_sampling() const;

  /// Text that stands for special tokens is taken literally unless `parses_special`.
  std::vector<std::int32_t> tokenize(std::string_view text, bool parses_special = false) const;
  std::string detokenize(std::span<const std::int32_t> tokens) const;
  /// The conversation as the model was trained to read it, ready for its next reply. What the
  /// messages say can never become a special token. Throws where the model has no chat template, or
  /// one that cannot be used.
  std::vector<std::int32_t> chat(std::span<const Message> messages) const;

 private:
  friend class Engine;
  std::shared_ptr<const detail::ModelData> data_;
};

/// One token with its log-probability, and the most probable ones in its place.
struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
  std::vector<std::pair<std::int32_t, float>> top;
};

enum class Finish : std::uint8_t { stop, length, cancelled, failed };
const char* finish_name(Finish finish);

struct Reply;

/// What a request asks for. Give one of `messages`, `prompt` and `tokens`.
struct Request {
  std::string prompt = {};
  std::vector<Message> messages = {};
  std::vector<std::int32_t> tokens = {};
  std::size_t max_tokens = 256;
  Sampling sampling = {};
  std::vector<std::string> stop = {};  // ends before the first of these
  // Ends with one of these, as with the model's own, which count among them; at most 128.
  std::vector<std::int32_t> stop_tokens = {};
  bool ignores_end = false;               // goes on after the model's end token
  std::optional<unsigned> logprobs = {};  // report log-probabilities, and this many alternatives
  /// Called with each piece of text as it comes; whole characters only. False ends the request.
  std::function<bool(std::string_view text)> on_text = {};
  /// Called with the whole reply as soon as it has ended.
  std::function<void(const Reply& reply)> on_done = {};
};

struct Reply {
  std::string text;
  std::vector<std::int32_t> tokens;  // generated, an end token included
  std::vector<TokenLogprob> logprobs;
  Finish finish = Finish::stop;
  std::string error;  // why it failed
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;      // of the prompt, found in the prefix cache
  double seconds_to_first_token = 0;  // from submission
  double seconds = 0;                 // from submission to the end
};

/// Which steps run as graphs. A decode step computes one new token of each sequence in it; a mixed
/// step reads prompts too.
enum class GraphMode : std::uint8_t {
  full,       // every step: a graph for each size of decode steps, and one for each of mixed steps
  piecewise,  // mixed steps as several graphs, with attention launched between them
  decode,     // decode steps only
  off,
};
const char* graph_mode_name(GraphMode mode);

/// How keys and values are stored. automatic: bf16 on CUDA for a model in bf16, else f32, and there
/// is no choice. fp8 (e4m3) takes half the memory of bf16, and rounds to 3 bits after the point.
enum class KvType : std::uint8_t { automatic, f32, bf16, f16, fp8 };
inline constexpr int kKvTypes = 5;
const char* kv_type_name(KvType type);

/// What matrices become on a GPU: nothing else, or e4m3 with a scale for each row, which takes half
/// the memory of bf16 and half the time to read.
enum class WeightFormat : std::uint8_t { as_stored, fp8 };
inline constexpr int kWeightFormats = 2;
const char* weight_format_name(WeightFormat format);

struct EngineOptions {
  Device device = Device::best();
  unsigned slots = 8;       // sequences that run at once
  std::size_t context = 0;  // longest sequence; 0: the model's, at most 4096
  unsigned page_size = 16;  // tokens in a page of the KV cache: 16, 32 or 64
  // 0: as many as `memory_fraction` allows, but on a GPU at most 16 times what all slots can use at
  // once, on the host twice: the rest is the prefix cache's.
  std::size_t pages = 0;
  double memory_fraction = 0.8;  // of the memory that is free, for the KV cache
  unsigned step_tokens = 0;      // computed in one step, at most; 0: 2048 on a GPU, else 512
  unsigned prefill_chunk = 0;    // of one prompt in one step, at most; 0: step_tokens
  bool shares_prefixes = true;   // the prefix cache
  KvType kv_type = KvType::automatic;
  WeightFormat weights = WeightFormat::as_stored;
  // A sequence gets the same bits however its prompt is cut and whatever else runs; on the host
  // always. Without it a GPU multiplies prompts and large batches of bf16 weights, and attends to
  // prompts, by faster kernels that add up in other orders: how a prompt is cut or how large a
  // batch is can change the last bit, and decide between tokens that are nearly equally probable.
  bool same_bits = false;
  GraphMode graphs = GraphMode::full;
  // Tokens of steps that have graphs, ascending. Empty: all that can come, some padded.
  std::vector<unsigned> decode_sizes = {};
  std::vector<unsigned> mixed_sizes = {};
  bool pads = true;           // a step may run in a larger graph; else only in one of its size
  bool overlap = true;        // the next step is planned and launched while one runs
  std::string step_log = {};  // a file that gets each step's record, a line of JSON each
};

/// Where the memory goes, in bytes.
struct EngineMemory {
  std::size_t weights_mapped = 0;
  std::size_t weights_copied = 0;
  std::size_t arena = 0;          // activations, for the largest step
  std::size_t step = 0;           // what steps read and write at fixed addresses
  std::size_t graphs = 0;         // of the host
  std::size_t graphs_device = 0;  // that a GPU's driver took to build them
  std::size_t kv = 0;
  std::size_t pages = 0;  // a count
  // What a step must read at least, whatever it computes: the memory floor.
  std::size_t weights_per_step = 0;
  std::size_t kv_per_token = 0;  // for each token of context
};

/// How a step ran: in one graph for decode steps or for mixed ones, in pieces, or as kernels
/// launched one by one.
enum class StepMode : std::uint8_t { decode, mixed, piecewise, kernels };
inline constexpr std::size_t kStepModes = 4;
const char* step_mode_name(StepMode mode);

/// Why a step had no graph.
enum class Miss : std::uint8_t { none, graphs_off, mixed_off, above_sizes, no_exact_size };
inline constexpr std::size_t kMisses = 5;
/// "graphs are off", ...; empty for none.
const char* miss_reason(Miss miss);

/// One step.
struct StepRecord {
  std::uint64_t step = 0;  // counted from 1
  bool is_decode = false;
  StepMode mode = StepMode::kernels;
  std::uint32_t tokens = 0;
  std::uint32_t rows = 0;     // of logits
  std::uint32_t size = 0;     // of the graph; 0: none
  std::uint32_t padding = 0;  // size - tokens
  Miss miss = Miss::none;
  double microseconds = 0;
};
/// As in the step log, without the line's end.
std::string to_json(const StepRecord& record);

/// Steps that the scheduler can form and that are all run in the same way.
struct GraphCoverage {
  bool is_decode = false;
  StepMode mode = StepMode::kernels;
  Miss miss = Miss::none;
  std::uint32_t largest = 0;  // graph that such steps could have; 0: none
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tokens;  // ranges, both ends included
};
/// "decode 1..8: graphs", or what has none and why.
std::string describe(const GraphCoverage& coverage);

/// Matrices that the same kernel multiplies.
struct Product {
  std::string matrices;  // "query, key and value in Q4_0; head in Q6_K"
  std::string kernel;
  std::string reason;  // why it is not the fastest kernel there is; empty where it is
};
/// "head in Q6_K: linear (Q6_K has no streamed kernel)"
std::string describe(const Product& product);

/// What the engine did so far.
struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t steps_ahead = 0;  // planned and launched while the one before ran
  std::uint64_t tokens_prefilled = 0;
  std::uint64_t tokens_decoded = 0;
  std::uint64_t tokens_voided = 0;  // of those, of sequences that ended or paused meanwhile
  std::uint64_t tokens_from_cache = 0;
  std::uint64_t tokens_padded = 0;  // places of a graph that a step did not need
  std::array<std::uint64_t, kStepModes> steps_by_mode = {};
  std::uint64_t graph_hits = 0;                          // steps that had a graph
  std::array<std::uint64_t, kMisses> graph_misses = {};  // that had none, by reason
  std::uint64_t preemptions = 0;
  std::uint64_t evictions = 0;
  double seconds_busy = 0;        // with a step in flight
  double seconds_idle = 0;        // with none: the host scheduled and kept books
  double seconds_overlapped = 0;  // the host did that while a step ran; part of seconds_busy
};

/// Runs requests on one model and device. Not thread-safe.
class Engine {
 public:
  /// Throws BadArgument, with the numbers, where the options and the memory do not fit together.
  explicit Engine(const Model& model, const EngineOptions& options = {},
                  const Progress& progress = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// Throws BadArgument for a request that makes no sense or cannot fit.
  Reply generate(const Request& request);
  /// All of them, batched; replies in the order of the requests. One that makes no sense fails
  /// alone: its reply says why.
  std::vector<Reply> generate(std::span<const Request> requests);
  /// The log-probability of each token but the first, given those before it.
  std::vector<TokenLogprob> score(std::span<const std::int32_t> tokens);

  const EngineOptions& options() const;  // with the defaults filled in
  /// The most tokens a sequence can have: the context, or less where the KV pages hold less.
  std::size_t longest_sequence() const;
  EngineMemory memory() const;
  EngineStats stats() const;
  /// For every step the scheduler can form, whether it has a graph.
  std::vector<GraphCoverage> coverage() const;
  /// What multiplies the model's matrices on this device, and what keeps it from a faster kernel.
  std::vector<Product> products() const;
  /// The last steps, at most 4096, oldest first.
  std::vector<StepRecord> records() const;

 private:
  std::unique_ptr<detail::EngineCore> core_;
};

}  // namespace attacca::llm
