// llm.hpp: a language model inside a program.
//
//   attacca::llm::Model model("models/attacca-small.gguf");
//   attacca::llm::Engine engine(model);
//   attacca::llm::Reply reply = engine.generate({.prompt = "Once upon a time"});
//   std::puts(reply.text.c_str());
//
// Link attacca::llm. An engine takes requests while it runs, from any thread:
//
//   attacca::llm::Ticket ticket = engine.submit({.prompt = "Once upon a time"});
//   while (auto event = ticket.next()) std::fputs(event->text.c_str(), stdout);
//
// Requests run by continuous batching with chunked prefill: each step computes one token of every
// running sequence and chunks of prompts that are not read yet. There is no server here, and one
// engine uses one device, unless its model is split over ranks.
#pragma once

#include <array>
#include <attacca/device.hpp>
#include <attacca/device/records.hpp>
#include <attacca/error.hpp>
#include <attacca/ranks.hpp>
#include <chrono>
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

/// Called with a task's name, the units done and the total.
using Progress = std::function<void(std::string_view what, std::uint64_t done, std::uint64_t all)>;

/// A function that an assistant's message calls.
struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // a JSON object
};

/// One turn of a conversation.
struct Message {
  std::string role;  // "system", "user", "assistant" or "tool", if the model's template knows them
  std::string content;
  std::vector<ToolCall> tool_calls = {};  // of an assistant
  std::string tool_call_id = {};          // of a tool: the call that it answers
};

/// How a model writes calls of tools, which its chat template tells. qwen: as JSON between
/// <tool_call> and </tool_call>. llama3: as JSON alone, with the arguments as "parameters".
enum class ToolFormat : std::uint8_t { none, qwen, llama3 };

/// How the next token is chosen. The default is the most probable one.
struct Sampling {
  float temperature = 0;
  int top_k = 0;  // 0: all tokens
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;  // 0.01 to 100
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint64_t seed = 0;  // the same seed gives the same draws, whatever else is in the batch
  // A token and the number that is added to its logit; at most 1024 tokens.
  std::vector<std::pair<std::int32_t, float>> bias = {};
  std::vector<std::int32_t> allowed = {};  // only these tokens can be chosen; empty: all
};

/// json_schema: JSON that a schema describes; json_object: any JSON object; regex: a text that an
/// expression describes from its beginning to its end. docs/grammar.md says what is supported and
/// how JSON is written.
enum class GrammarKind : std::uint8_t { none, json_schema, json_object, regex };

/// What a reply may be. Only tokens that lead to such a text are sampled, and the model's end token
/// only where the text is whole. So a reply that ends with `stop` is such a text, unless a stop
/// text or a stop token of the request cut it; one that ends with `length` is the beginning of one.
/// Requests with the same grammar share what is computed for it.
struct Grammar {
  GrammarKind kind = GrammarKind::none;
  std::string text = {};    // the schema or the expression
  std::string before = {};  // stands before it, as it is
  std::string after = {};   // and behind it

  bool operator==(const Grammar&) const = default;
};

/// A grammar that cannot be used: for a schema, the message names the keyword and its JSON pointer.
class BadGrammar : public BadArgument {
 public:
  using BadArgument::BadArgument;
};

struct EngineOptions;

namespace detail {
struct ModelData;
class EngineCore;
class TicketCore;
}  // namespace detail

/// A model's opened files: weights (mapped, not read), tokenizer, chat template. Cheap to copy:
/// copies share the files. Thread-safe.
class Model {
 public:
  /// `path`: a .gguf file, a .safetensors file, or a folder in the Hugging Face layout; empty for
  /// the embedded model.
  explicit Model(const std::string& path, const Progress& progress = {});

  const std::string& name() const;
  std::size_t context() const;  // the longest sequence it was made for
  std::size_t vocabulary() const;
  /// Weights that multiply each token of a prompt: all but embedding and head.
  std::size_t parameters_per_token() const;
  /// Whether the files have a chat template. If it cannot be used, `chat` throws the reason.
  bool has_chat_template() const;
  ToolFormat tool_format() const;
  /// Surprises in the files, a sentence each: unknown keys, a head that differs from the
  /// configuration, a chat template that cannot be used.
  const std::vector<std::string>& notes() const;
  /// The sampling that the model's files advise; greedy if they advise none.
  Sampling advised_sampling() const;

  /// The text of a special token becomes that token only if `parses_special` is set.
  std::vector<std::int32_t> tokenize(std::string_view text, bool parses_special = false) const;
  std::string detokenize(std::span<const std::int32_t> tokens) const;
  /// The bytes of a token by itself; they may be a part of a character.
  std::string token_bytes(std::int32_t token) const;
  /// The conversation as the model was trained to read it, up to its next reply. The text of
  /// messages and tools never becomes a special token. `tools`: see Request. Throws BadArgument if
  /// the model has no usable chat template.
  std::vector<std::int32_t> chat(std::span<const Message> messages,
                                 std::string_view tools = {}) const;

 private:
  friend class Engine;
  friend void follow(const Model& model, const EngineOptions& options, const Progress& progress);
  std::shared_ptr<const detail::ModelData> data_;
};

/// A token with its log-probability, and the most probable tokens at its position.
struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
  std::vector<std::pair<std::int32_t, float>> top;
};

/// deadline: the request's deadline passed before its end.
enum class Finish : std::uint8_t { stop, length, cancelled, failed, deadline };
const char* finish_name(Finish finish);

/// A class of requests. When several classes wait, of 21 requests that get their turn 16 are high,
/// 4 normal and 1 low, so no class starves. Within a class requests keep their order.
enum class Priority : std::uint8_t { high, normal, low };
inline constexpr std::size_t kPriorities = 3;
const char* priority_name(Priority priority);

/// How the tokens of a prompt become one vector: the model's last hidden state, after its final
/// norm, at the last token, or the mean over all tokens. The mean finds nothing in the prefix
/// cache.
enum class Pooling : std::uint8_t { none, last, mean };

/// What became of a request since its last event: a token with the text that it made certain, or
/// its end, or both.
struct RequestEvent {
  std::int32_t token = -1;                   // -1: none
  std::string text = {};                     // whole characters; may be empty
  std::optional<TokenLogprob> logprob = {};  // if the request asks for log-probabilities
  std::optional<Finish> finish = {};         // in the last event
  std::string error = {};                    // the reason, if finish is failed
  std::size_t cached_tokens = 0;             // of the prompt, found in the prefix cache
  double seconds = 0;                        // from submission to the step that gave the token
  double seconds_waiting = 0;                // from submission until it got a slot
  std::vector<float> embedding = {};         // in the last event, if the request asks for one
};

struct Reply;

/// One prompt to continue. Give one of `messages`, `prompt` and `tokens`.
struct Request {
  std::string prompt = {};
  std::vector<Message> messages = {};
  std::string tools = {};  // functions that the messages' model may call: a JSON list, as OpenAI's
  std::vector<std::int32_t> tokens = {};
  /// Asks for the prompt's vector instead of a reply; sampling, grammar and stops then do not
  /// count. Not with the resident scheduler over ranks.
  Pooling embed = Pooling::none;
  std::size_t max_tokens = 256;
  Sampling sampling = {};
  Grammar grammar = {};
  std::vector<std::string> stop = {};  // the reply ends before the first of these
  // The reply ends with one of these or of the model's own stop tokens; at most 128 together.
  std::vector<std::int32_t> stop_tokens = {};
  bool ignores_end = false;               // goes on after the model's end token
  std::optional<unsigned> logprobs = {};  // report log-probabilities, and this many alternatives
  Priority priority = Priority::normal;
  /// The request ends then, with what it has, if it has not ended before.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  // `generate` calls these from its caller's thread, `submit` from a thread of the engine that all
  // its requests share: there they must not block, and must not wait for other requests.
  /// Called with each new piece of text, in whole characters. Return false to end the request.
  std::function<bool(std::string_view text)> on_text = {};
  /// Called with each event.
  std::function<void(const RequestEvent& event)> on_event = {};
  /// Called with the whole reply as soon as the request has ended.
  std::function<void(const Reply& reply)> on_done = {};
};

struct Reply {
  std::string text;
  std::vector<std::int32_t> tokens;  // the generated tokens, with the end token
  std::vector<TokenLogprob> logprobs;
  Finish finish = Finish::stop;
  std::string error;             // the reason, if finish is failed
  std::vector<float> embedding;  // if the request asks for one; as long as the model's hidden size
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;      // prompt tokens found in the prefix cache
  double seconds_waiting = 0;         // until it got a slot; resident: until the loop took it
  double seconds_to_first_token = 0;  // from submission
  double seconds = 0;                 // from submission to the end
};

/// Which steps run as graphs. A decode step computes one token of each sequence in it; a mixed step
/// reads prompts too.
enum class GraphMode : std::uint8_t {
  full,       // every step: one graph for each decode size and one for each mixed size
  piecewise,  // as full, but a mixed step is several graphs, with attention launched between them
  decode,     // decode steps only
  off,
};
const char* graph_mode_name(GraphMode mode);

/// How keys and values are stored. automatic: bf16 for a model in bf16 on CUDA, else f32. Other
/// types need a CUDA device and weights that can be streamed. fp8 (e4m3) takes half the memory of
/// bf16, and has 3 bits of mantissa.
enum class KvType : std::uint8_t { automatic, f32, bf16, f16, fp8 };
inline constexpr int kKvTypes = 5;
const char* kv_type_name(KvType type);

/// How a GPU holds the matrices: as the file stores them, or as fp8 (e4m3) with a scale for each
/// row. fp8 takes half the memory of bf16, and half the time to read.
enum class WeightFormat : std::uint8_t { as_stored, fp8 };
inline constexpr int kWeightFormats = 2;
const char* weight_format_name(WeightFormat format);

/// Where the loop runs that plans steps and commits their tokens. host: a thread of the engine
/// launches each step. resident: the loop itself is a graph on the device, which takes requests
/// from a ring and publishes tokens through another one; the host launches it when there is
/// something to do. Every step must have a graph then. automatic: resident on a GPU, if every step
/// has a graph, steps overlap and the model is on one rank; else host.
enum class Scheduler : std::uint8_t { automatic, host, resident };
inline constexpr int kSchedulers = 3;
const char* scheduler_name(Scheduler scheduler);

/// The form of the resident scheduler's loop: one WHILE node with a SWITCH over all step sizes, or
/// a graph for each size that launches the next one. docs/performance.md compares them.
enum class ResidentLoop : std::uint8_t { while_node, self_relaunch };
inline constexpr int kResidentLoops = 2;
const char* resident_loop_name(ResidentLoop loop);

/// The form of decode steps of up to 16 tokens on a GPU: a graph of kernels, or one persistent
/// kernel with the same bits. `automatic`: one kernel for sizes of model and step for which it was
/// measured faster. Steps that cannot be one kernel are graphs of kernels: `Engine::explain_steps`
/// says which and why.
enum class StepForm : std::uint8_t { automatic, kernels, persistent };
inline constexpr int kStepForms = 3;
const char* step_form_name(StepForm form);

struct StepRecord;

/// Engines that share one of these take turns: while steps of one are in flight, those of the
/// others wait, each for its turn. While nobody waits, an engine launches steps ahead as always.
class StepTurns;
std::shared_ptr<StepTurns> make_step_turns();

struct EngineOptions {
  Device device = Device::best();
  unsigned slots = 8;       // sequences that run at once
  std::size_t context = 0;  // longest sequence; 0: the model's, at most 4096
  unsigned page_size = 16;  // tokens in a page of the KV cache: 16, 32 or 64
  // KV pages. 0: as many as `memory_fraction` allows, but at most 16 times what all slots can use
  // at once on a GPU, and twice on the host. Pages that no sequence uses hold the prefix cache.
  std::size_t pages = 0;
  double memory_fraction = 0.8;  // of the free memory, that the engine may use
  // Bytes that the engine may use, weights included; 0: no limit. With a limit the pool has as many
  // pages as all slots can use at once, no more and no fewer.
  std::size_t memory_limit = 0;
  // Most tokens in one step, raised to `slots`; 0: 2048 on a GPU, else 512.
  unsigned step_tokens = 0;
  // Most tokens of a step in which a sequence decodes, which bounds how long a prompt delays a
  // decode; at least `slots`, at most `step_tokens`. 0: step_tokens on a GPU, 128 on the host.
  unsigned decode_step_tokens = 0;
  unsigned prefill_chunk = 0;   // most tokens of one prompt in one step; 0: step_tokens
  bool shares_prefixes = true;  // the prefix cache is on
  KvType kv_type = KvType::automatic;
  WeightFormat weights = WeightFormat::as_stored;
  // A sequence gets the same bits however its prompt is cut and whatever else is in the batch. On
  // the host this always holds. Without it a GPU uses faster kernels for large batches of bf16
  // weights and for attention to prompts. They add up in other orders, so the cut of a prompt or
  // the size of a batch can change the last bit, and decide between tokens that are almost equally
  // probable.
  bool same_bits = false;
  GraphMode graphs = GraphMode::full;
  // Step sizes, in tokens, that have graphs; ascending. Empty: a list that covers every step, some
  // with padding.
  std::vector<unsigned> decode_sizes = {};
  std::vector<unsigned> mixed_sizes = {};
  // The ranks that the model is split over; this is rank 0, and the others call `follow`. Every
  // rank has a host device of its own or a GPU. Rank 0's options hold for all.
  std::optional<Group> ranks = {};
  Transport rank_transport = Transport::automatic;  // the same on all ranks
  // On GPUs, through edges or NVSHMEM: one kernel adds up the parts of all ranks and the residual.
  // The same on all ranks.
  bool fuses_rank_sums = true;
  bool pads = true;  // a step may run in a larger graph; else only in one of its size
  Scheduler scheduler = Scheduler::automatic;
  ResidentLoop resident_loop = ResidentLoop::self_relaunch;
  StepForm step_form = StepForm::automatic;
  bool overlap = true;  // host: the next step is planned and launched while one runs
  std::shared_ptr<StepTurns> turns = {};  // null: it waits for nobody
  std::string step_log = {};  // a file; each step's record is written to it as a line of JSON
  // Marks of the last steps that are kept, by the device's clock; see StepMark. 0: none, and no
  // kernel writes any.
  std::size_t device_records = 0;
  /// Called after each step, from the thread that runs them: it must be quick and must not throw.
  std::function<void(const StepRecord& record)> on_step = {};
};

/// Throws BadArgument if the options do not go together, whatever the model and the memory. The
/// constructor of Engine checks the same and more; this tells before a model is opened.
void check(EngineOptions options);

/// What the records of `Engine::device_records` say has happened. Their value is the size of the
/// step's graph, in tokens, or 0. The last five are of the resident scheduler: `turn` stands
/// between two steps, `plan` runs beside a step, commits the one before and plans the next.
enum class StepMark : std::uint32_t {
  step_begins,
  step_ends,
  turn_begins,
  turn_ends,
  plan_begins,
  plan_has_committed,
  plan_ends,
};

/// An engine that does not fit into the memory. The message has the numbers.
class DoesNotFit : public BadArgument {
 public:
  using BadArgument::BadArgument;
};

/// Where the memory goes, in bytes.
struct EngineMemory {
  std::size_t weights_mapped = 0;
  std::size_t weights_copied = 0;
  std::size_t arena = 0;          // activations of the largest step
  std::size_t step = 0;           // inputs and outputs of steps, at fixed addresses
  std::size_t graphs = 0;         // graphs, on the host
  std::size_t graphs_device = 0;  // memory that a GPU's driver took to build them
  std::size_t kv = 0;
  std::size_t pages = 0;  // a count, not bytes
  // The memory floor: weights that every step must read, whatever it computes.
  std::size_t weights_per_step = 0;
  std::size_t kv_per_token = 0;  // keys and values of one token of context

  std::size_t total() const {
    return weights_mapped + weights_copied + arena + step + graphs + graphs_device + kv;
  }
};

/// How a step ran: in a graph of a decode size, in one of a mixed size, in several graphs with
/// attention between them, or kernel by kernel.
enum class StepMode : std::uint8_t { decode, mixed, piecewise, kernels };
inline constexpr std::size_t kStepModes = 4;
const char* step_mode_name(StepMode mode);

/// Why a step had no graph.
enum class Miss : std::uint8_t { none, graphs_off, mixed_off, above_sizes, no_exact_size };
inline constexpr std::size_t kMisses = 5;
/// "graphs are off", ...; empty for none.
const char* miss_reason(Miss miss);

/// What one step computed, how it ran and how long it took.
struct StepRecord {
  std::uint64_t step = 0;  // counted from 1
  bool is_decode = false;
  StepMode mode = StepMode::kernels;
  std::uint32_t tokens = 0;
  std::uint32_t rows = 0;     // of logits
  std::uint32_t size = 0;     // tokens of the graph; 0: no graph
  std::uint32_t padding = 0;  // size - tokens
  Miss miss = Miss::none;
  double microseconds = 0;
  std::chrono::steady_clock::time_point ended = {};  // when the host learned of its end
};
/// A line of the step log, without the newline.
std::string to_json(const StepRecord& record);

/// Step sizes in tokens, ascending.
struct StepSizes {
  std::vector<unsigned> decode;
  std::vector<unsigned> mixed;

  friend bool operator==(const StepSizes&, const StepSizes&) = default;
};

/// A set of steps that the scheduler can form and that all run in the same way.
struct GraphCoverage {
  bool is_decode = false;
  StepMode mode = StepMode::kernels;
  Miss miss = Miss::none;
  std::uint32_t largest = 0;  // size of the largest graph for such steps; 0: none
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tokens;  // ranges, both ends included
};
/// "decode 1..8: graphs", or which steps have none and why.
std::string describe(const GraphCoverage& coverage);

/// Matrices that the same kernel multiplies.
struct Product {
  std::string matrices;  // "query, key and value in Q4_0; head in Q6_K"
  std::string kernel;
  std::string reason;  // why no faster kernel is used; empty if there is none
};
/// "head in Q6_K: linear (Q6_K has no streamed kernel)"
std::string describe(const Product& product);

/// A moment of an engine, and counts of what it has done since it started.
struct EngineStats {
  std::uint32_t requests_running = 0;  // they have slots
  std::uint64_t requests_waiting = 0;
  std::uint32_t pages_in_use = 0;  // by running requests
  std::uint32_t pages_cached = 0;  // that no request uses and the prefix cache keeps
  std::uint64_t steps = 0;
  std::uint64_t steps_ahead = 0;  // steps planned and launched while the one before ran
  std::uint64_t tokens_prefilled = 0;
  std::uint64_t tokens_decoded = 0;
  std::uint64_t tokens_voided = 0;  // computed for sequences that had ended or been preempted
  std::uint64_t tokens_from_cache = 0;
  std::uint64_t tokens_padded = 0;  // tokens of graphs that their steps did not use
  std::array<std::uint64_t, kStepModes> steps_by_mode = {};
  std::uint64_t graph_hits = 0;                          // steps that had a graph
  std::array<std::uint64_t, kMisses> graph_misses = {};  // steps that had none, by reason
  std::uint64_t preemptions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t launches = 0;    // by the host: one a step, or one whenever the loop had ended
  std::uint64_t pauses = 0;      // resident: steps put off because nobody had read the news
  std::uint64_t steps_late = 0;  // resident: they ended before the host read of the one before
  // Tokens of replies with a grammar after which the device had the next mask, and those after
  // which the sequence sat out until the host sent it.
  std::uint64_t masks_followed = 0;
  std::uint64_t masks_awaited = 0;
  // Ranks: steps that sampled from the highest logits of each rank. The others gathered all logits.
  std::uint64_t steps_of_highest = 0;
  double seconds_busy = 0;        // a step was in flight
  double seconds_idle = 0;        // no step was in flight: the host planned, committed, sent text
  double seconds_overlapped = 0;  // the host worked while a step ran; part of seconds_busy
  bool has_lost_device = false;   // an error cost the engine its device: it takes no more requests
  std::string loss = {};          // what that error said
};

/// A submitted request. Copies are the same ticket. A ticket without a request refuses every call
/// with BadArgument. Thread-safe; it may outlive its engine, whose end cancels the request.
class Ticket {
 public:
  Ticket() = default;

  std::uint64_t id() const;  // unique in its engine
  /// The next event; waits for it. None after the last. A reader may be as slow as it likes: events
  /// are kept, and nobody waits for them. Throws BadArgument if the request has callbacks, which
  /// get the events instead.
  std::optional<RequestEvent> next();
  /// The same, but gives up after `patience`; none then too, and `has_ended` tells the difference.
  std::optional<RequestEvent> next(std::chrono::nanoseconds patience);
  /// Waits for the end and takes the reply, with the events that `next` gave out before. Throws
  /// BadArgument if the reply was taken already.
  Reply wait();
  /// Whether the last event was given out, or the callbacks got it.
  bool has_ended() const;
  /// Asks the engine to end the request: no more than one further step computes it. If it has not
  /// ended before, its finish is `cancelled`. Throws BadArgument if it was cancelled already.
  void cancel();

 private:
  friend class Engine;
  explicit Ticket(std::shared_ptr<detail::TicketCore> core) : core_(std::move(core)) {}
  detail::TicketCore& core() const;

  std::shared_ptr<detail::TicketCore> core_;
};

/// Runs requests on one model and device. A thread of its own runs the steps, and another one turns
/// tokens into text. Thread-safe, except for moves and the destructor, which cancels every request.
class Engine {
 public:
  /// Throws BadArgument if the options do not go together, and DoesNotFit if they do not fit into
  /// the memory.
  explicit Engine(const Model& model, const EngineOptions& options = {},
                  const Progress& progress = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// Puts a request in line and returns at once. It waits as long as it must for a slot: only
  /// memory bounds the line. Throws BadArgument if the request makes no sense or can never fit
  /// (BadGrammar for its grammar), and DeviceError if an earlier error has cost the engine its
  /// device.
  Ticket submit(Request request);

  /// Submits a request and waits for its end. Throws what `submit` throws, and the error of a step
  /// that failed.
  Reply generate(const Request& request);
  /// Submits all requests together. Replies are in the order of the requests. A request that makes
  /// no sense fails alone: its reply says why.
  std::vector<Reply> generate(std::span<const Request> requests);
  /// The log-probability of each token but the first, given those before it.
  std::vector<TokenLogprob> score(std::span<const std::int32_t> tokens);

  /// Waits until no request is left and no step runs. Then `stats` are complete: while requests
  /// run, they are as of the last step, and another step may be on its way.
  void wait_until_idle() const;

  const EngineOptions& options() const;  // with the defaults filled in
  /// The most tokens a sequence can have: the context, or less if the KV pages hold less.
  std::size_t longest_sequence() const;
  EngineMemory memory() const;
  EngineStats stats() const;
  /// Tells, for every step the scheduler can form, whether it has a graph.
  std::vector<GraphCoverage> coverage() const;
  /// Which form the resident scheduler's loop has, what a pass costs in each form on this device,
  /// and why it cannot have the others. It measures small loops. Empty with the host's scheduler.
  std::string explain_loop() const;
  /// Which decode steps are one persistent kernel, or why none is. Empty where nobody asked for
  /// one: with StepForm::kernels, and on the host with StepForm::automatic.
  std::string explain_steps() const;
  /// The step sizes that have graphs.
  StepSizes sizes() const;
  /// Builds graphs for other sizes while requests run; steps use them from the next one on, those
  /// of the resident loop when it has paused. Returns when they are built. Throws BadArgument if
  /// they make no sense, where a step of the resident loop would have no graph, and where the model
  /// is split or graphs are not full; DeviceError if there is no memory. Then the old ones stay.
  void change_sizes(const StepSizes& sizes);
  /// Which kernels multiply the model's matrices on this device, and why not faster ones.
  std::vector<Product> products() const;
  /// The last steps, oldest first. 4096 are kept.
  std::vector<StepRecord> records(std::size_t most = 4096) const;
  /// The last marks, as many as EngineOptions::device_records, oldest first. Call it when the
  /// engine is idle.
  std::vector<device::Record> device_records() const;

 private:
  std::unique_ptr<detail::EngineCore> core_;
};

/// Computes, as a rank other than 0 of `options.ranks`, what the engine of rank 0 asks for, and
/// returns when that engine ends. Throws RanksBroken if a rank fails. Throws BadArgument, on all
/// ranks alike and before anything is allocated, if their models differ or the model cannot be
/// split over that many ranks.
void follow(const Model& model, const EngineOptions& options, const Progress& progress = {});

}  // namespace attacca::llm
