// models.hpp: the models of a server: which there are, which of them are loaded, and how much
// memory they take together. One thread loads and unloads them; requests for a model that is not
// loaded wait until it is.
#pragma once

#include <atomic>
#include <attacca/llm.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/generation.hpp"
#include "server/model_status.hpp"
#include "server/openai_requests.hpp"

namespace attacca::server {

/// A model and the engine that runs it.
struct LoadedModel {
  llm::Model model;
  llm::Engine engine;
  std::shared_ptr<void> attendant = {};  // ends before the engine
};

/// What the engine of a model must keep to.
struct LoadTerms {
  std::size_t memory_limit = 0;                // for EngineOptions
  std::shared_ptr<llm::StepTurns> turns = {};  // likewise; null if there is one model
  std::function<void(const llm::StepRecord& record)> on_step = {};
};

/// A model that requests may name.
struct ModelSource {
  std::string name;                       // in the list of models and in replies
  std::vector<std::string> aliases = {};  // other names that requests may give
  /// Throws what the constructors of Model and Engine throw.
  std::function<LoadedModel(const LoadTerms& terms)> load;
  /// Makes something that looks after the engine while it is loaded; may be empty. The engine stays
  /// where it is.
  std::function<std::shared_ptr<void>(llm::Engine& engine)> attend = {};
};

struct ModelsOptions {
  std::size_t memory = 0;  // bytes that loaded models may take together; 0: no limit
  std::chrono::nanoseconds unload_after{0};  // without a request; 0: never
  std::size_t slots = 8;
  std::size_t most_waiting = 256;  // sequences of one model
  std::size_t most_tokens = 0;     // these three: see RequestRules
  std::chrono::milliseconds most_time{0};
  bool refuses_unknown = false;
  /// Called with what happens to models, a sentence each.
  std::function<void(const std::string& line)> log = [](const std::string&) {};
  /// Called when an engine has lost its device, with what its error said.
  std::function<void(const std::string& loss)> on_lost = [](const std::string&) {};
};

/// Thread-safe.
class Models {
  struct Entry;

 public:
  /// A loaded model that stays loaded while one of these is there.
  class InUse {
   public:
    explicit InUse(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}
    ~InUse();
    InUse(const InUse&) = delete;

    const std::string& name() const;
    const llm::Model& model() const;
    llm::Engine& engine() const;
    const RequestRules& rules() const;
    const std::shared_ptr<Books>& books() const;

   private:
    std::shared_ptr<Entry> entry_;
  };
  using InUsePtr = std::shared_ptr<const InUse>;
  using Then = std::function<void(InUsePtr model)>;
  using Refused = std::function<void(const std::exception_ptr& reason)>;

  /// Throws BadArgument if there is none, or two have the same name.
  Models(std::vector<ModelSource> sources, ModelsOptions options);
  /// Unloads them all. REQUIRES: none is in use.
  ~Models();
  Models(const Models&) = delete;

  /// The model that a request names, if it is loaded. An empty name means the only model there is.
  /// Throws RequestError if there is no such model.
  InUsePtr take(const std::string& name);
  /// Calls `then` with the model once it is loaded, or `refused` with the reason why it cannot be:
  /// from the thread that loads, which must not be kept long. Throws RequestError as `take` does,
  /// and if too many wait.
  void load(const std::string& name, Then then, Refused refused);
  /// The same, and waits. Throws the reason.
  void load_now(const std::string& name);
  /// Calls `done` when the model is not loaded, or `refused` if it is in use.
  void unload(const std::string& name, std::function<void()> done, Refused refused);
  /// Ends the thread that loads. Who still waits hears no more.
  void stop();

  /// Refuses new sequences from now on.
  void drain();
  bool is_draining() const { return is_draining_; }
  /// No model has room for another sequence.
  bool are_all_full() const;
  bool has_lost_device() const;

  std::vector<ModelStatus> list() const;
  /// Throws RequestError if there is no such model.
  ModelStatus status(const std::string& name) const;
  void add_metrics(MetricsPage& page) const;
  /// The last steps of all loaded models, in the order in which they ended.
  std::vector<ModelStep> steps(std::size_t most) const;

 private:
  struct Waiting {
    Then then;
    Refused refused;
    bool tells_failure = false;  // the log need not: `load_now` throws the reason
  };

  std::shared_ptr<Entry> find(const std::string& name) const;
  std::string names() const;
  void put_in_line(const std::string& name, Waiting waiting);
  void post(std::function<void()> task);
  void run();
  void load(const std::shared_ptr<Entry>& entry);
  void make_room_and_load(Entry& entry);
  std::vector<std::shared_ptr<Entry>> least_recently_used_first() const;
  bool unload_if_idle(Entry& entry, const char* why);
  void unload_idle();
  void look_for_losses();
  std::string full_message(const Entry& entry, const std::string& reason) const;
  std::size_t bytes_used() const;

  const ModelsOptions options_;
  const std::shared_ptr<llm::StepTurns> turns_;
  std::vector<std::shared_ptr<Entry>> entries_;  // constant; their state is under the mutex
  std::atomic<bool> is_draining_ = false;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace attacca::server
