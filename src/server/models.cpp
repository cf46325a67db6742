// models.cpp: loads, counts and unloads models. What does not fit takes the place of the model that
// was used least recently, if that is idle.
#include "server/models.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <future>
#include <set>
#include <utility>

#include "core/in_quotes.hpp"
#include "core/mebi.hpp"
#include "core/thread_name.hpp"
#include "server/request_error.hpp"

namespace attacca::server {

namespace {

using Clock = std::chrono::steady_clock;

// How often it looks for idle models and for engines that lost their device.
constexpr std::chrono::milliseconds kLook{200};

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

/// A model and its state. Books and metrics stay when it is unloaded.
struct Models::Entry {
  Entry(ModelSource from, const ModelsOptions& options)
      : source(std::move(from)),
        books(std::make_shared<Books>(options.slots, options.most_waiting, source.name)) {}

  bool is_idle() const { return users == 0 && books->admission.inside() == 0; }
  /// REQUIRES: the mutex of Models is held.
  ModelStatus status() const {
    return {.name = source.name,
            .state = state,
            .bytes = bytes,
            .longest_sequence = rules.longest_sequence};
  }

  const ModelSource source;
  const std::shared_ptr<Books> books;
  std::atomic<std::size_t> users = 0;  // see InUse
  // Under the mutex of Models. While there are users, `loaded` and `rules` do not change.
  ModelState state = ModelState::unloaded;
  std::unique_ptr<LoadedModel> loaded;
  RequestRules rules;
  std::size_t bytes = 0;
  Clock::time_point last_used = {};
  std::vector<Waiting> waiting;
};

Models::InUse::~InUse() { --entry_->users; }
const std::string& Models::InUse::name() const { return entry_->source.name; }
const llm::Model& Models::InUse::model() const { return entry_->loaded->model; }
llm::Engine& Models::InUse::engine() const { return entry_->loaded->engine; }
const RequestRules& Models::InUse::rules() const { return entry_->rules; }
const std::shared_ptr<Books>& Models::InUse::books() const { return entry_->books; }

Models::Models(std::vector<ModelSource> sources, ModelsOptions options)
    : options_(std::move(options)), turns_(sources.size() > 1 ? llm::make_step_turns() : nullptr) {
  std::set<std::string> names;
  for (ModelSource& source : sources) {
    if (!names.insert(source.name).second)
      throw BadArgument(fmt::format("two models are called {}; give each a name of its own",
                                    in_quotes(source.name)));
    entries_.push_back(std::make_shared<Entry>(std::move(source), options_));
  }
  if (entries_.empty()) throw BadArgument("a server needs at least one model");
  thread_ = std::thread([this] { run(); });
}

Models::~Models() {
  stop();
  for (const auto& entry : entries_) entry->loaded.reset();
}

void Models::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Models::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  arrived_.notify_one();
}

void Models::run() {
  name_this_thread("attacca-models");
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait_for(lock, kLook, [&] { return is_over_ || !tasks_.empty(); });
      if (is_over_) return;
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
    }
    if (task) task();
    look_for_losses();
    unload_idle();
  }
}

std::string Models::names() const {
  std::string text;
  for (const auto& entry : entries_)
    text += (text.empty() ? "" : ", ") + in_quotes(entry->source.name);
  return text;
}

std::shared_ptr<Models::Entry> Models::find(const std::string& name) const {
  if (name.empty() && entries_.size() == 1) return entries_.front();
  if (name.empty())
    throw RequestError(400, fmt::format("'model' is missing; this server has {}", names()),
                       "model");
  for (const auto& entry : entries_)  // a name goes before the aliases of others
    if (entry->source.name == name) return entry;
  for (const auto& entry : entries_) {
    const auto& aliases = entry->source.aliases;
    if (std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return entry;
  }
  throw RequestError(
      404, fmt::format("there is no model {}; this server has {}", in_quotes(name), names()),
      "model", "model_not_found");
}

Models::InUsePtr Models::take(const std::string& name) {
  const auto entry = find(name);
  const std::lock_guard lock(mutex_);
  if (entry->state != ModelState::loaded) return nullptr;
  entry->last_used = Clock::now();
  ++entry->users;
  return std::make_shared<const InUse>(entry);
}

void Models::load(const std::string& name, Then then, Refused refused) {
  put_in_line(name, {std::move(then), std::move(refused)});
}

void Models::put_in_line(const std::string& name, Waiting waiting) {
  const auto entry = find(name);
  const std::lock_guard lock(mutex_);
  if (entry->waiting.size() >= entry->books->admission.room())
    throw RequestError(429, fmt::format("{} requests wait for {} to be loaded; try again later",
                                        entry->waiting.size(), in_quotes(entry->source.name)));
  entry->waiting.push_back(std::move(waiting));
  tasks_.push_back([this, entry] { load(entry); });
  arrived_.notify_one();
}

void Models::load_now(const std::string& name) {
  std::promise<void> loaded;
  put_in_line(name,
              {.then = [&](const InUsePtr&) { loaded.set_value(); },
               .refused = [&](const std::exception_ptr& reason) { loaded.set_exception(reason); },
               .tells_failure = true});
  loaded.get_future().get();
}

/// Answers all who wait for the entry, after it is loaded if it was not.
void Models::load(const std::shared_ptr<Entry>& entry) {
  std::exception_ptr failure;
  bool is_loaded = false;
  {
    const std::lock_guard lock(mutex_);
    if (entry->waiting.empty()) return;  // an earlier task answered them
    is_loaded = entry->state == ModelState::loaded;
  }
  try {
    if (!is_loaded) make_room_and_load(*entry);
  } catch (...) {
    failure = std::current_exception();
  }
  std::vector<Waiting> waiting;
  std::vector<InUsePtr> uses;
  {
    const std::lock_guard lock(mutex_);
    if (failure) entry->state = ModelState::unloaded;
    waiting = std::exchange(entry->waiting, {});
    entry->last_used = Clock::now();
    if (!failure) {
      entry->users += waiting.size();
      for (std::size_t at = 0; at < waiting.size(); ++at)
        uses.push_back(std::make_shared<const InUse>(entry));
    }
  }
  if (failure && std::none_of(waiting.begin(), waiting.end(),
                              [](const Waiting& one) { return one.tells_failure; }))
    options_.log(
        fmt::format("{} could not be loaded: {}", entry->source.name, message_of(failure)));
  for (std::size_t at = 0; at < waiting.size(); ++at) {
    if (failure)
      waiting[at].refused(failure);
    else
      waiting[at].then(std::move(uses[at]));
  }
}

void Models::make_room_and_load(Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    entry.state = ModelState::loading;
  }
  const Clock::time_point began = Clock::now();
  std::unique_ptr<LoadedModel> loaded;
  while (!loaded) {
    LoadTerms terms{.turns = turns_, .on_step = [books = entry.books](const llm::StepRecord& step) {
                      books->metrics.add_step(step);
                    }};
    if (options_.memory > 0)  // a limit of 0 would be none
      terms.memory_limit =
          std::max<std::size_t>(1, options_.memory - std::min(options_.memory, bytes_used()));
    try {
      loaded = std::make_unique<LoadedModel>(entry.source.load(terms));
    } catch (const llm::DoesNotFit& error) {
      const auto by_use = least_recently_used_first();
      if (std::none_of(by_use.begin(), by_use.end(),
                       [&](const auto& other) { return unload_if_idle(*other, "to make room"); }))
        throw RequestError(503, full_message(entry, error.what()), "model", "model_does_not_fit");
    }
  }
  if (entry.source.attend) loaded->attendant = entry.source.attend(loaded->engine);
  const std::size_t bytes = loaded->engine.memory().total();
  options_.log(fmt::format("{} is loaded: {:.1f} MiB in {:.2f} s", entry.source.name, mebi(bytes),
                           std::chrono::duration<double>(Clock::now() - began).count()));
  const std::lock_guard lock(mutex_);
  entry.rules = {.vocabulary = loaded->model.vocabulary(),
                 .longest_sequence = loaded->engine.longest_sequence(),
                 .sampling = default_sampling(loaded->model.advised_sampling()),
                 .tool_format = loaded->model.tool_format(),
                 .refuses_unknown = options_.refuses_unknown,
                 .most_tokens = options_.most_tokens,
                 .most_time = options_.most_time};
  entry.loaded = std::move(loaded);
  entry.bytes = bytes;
  entry.state = ModelState::loaded;
}

std::vector<std::shared_ptr<Models::Entry>> Models::least_recently_used_first() const {
  const std::lock_guard lock(mutex_);
  auto entries = entries_;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
  return entries;
}

std::string Models::full_message(const Entry& entry, const std::string& reason) const {
  std::string others;
  const std::lock_guard lock(mutex_);
  for (const auto& other : entries_)
    if (other->loaded)
      others += fmt::format("{}{} takes {:.0f} MiB and is in use", others.empty() ? "" : ", ",
                            in_quotes(other->source.name), mebi(other->bytes));
  if (others.empty()) return fmt::format("{}: {}", in_quotes(entry.source.name), reason);
  const std::string limit =
      options_.memory > 0 ? fmt::format("; models may take {:.0f} MiB", mebi(options_.memory)) : "";
  return fmt::format("{}: {}; {}{}", in_quotes(entry.source.name), reason, others, limit);
}

std::size_t Models::bytes_used() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& entry : entries_) bytes += entry->bytes;
  return bytes;
}

/// False if it is not loaded, or in use.
bool Models::unload_if_idle(Entry& entry, const char* why) {
  std::unique_ptr<LoadedModel> unloaded;
  {
    const std::lock_guard lock(mutex_);
    if (entry.state != ModelState::loaded || !entry.is_idle()) return false;
    unloaded = std::move(entry.loaded);
    entry.state = ModelState::unloaded;
    entry.bytes = 0;
  }
  unloaded.reset();  // without the lock: the engine's threads end
  options_.log(fmt::format("{} is unloaded {}", entry.source.name, why));
  return true;
}

void Models::unload(const std::string& name, std::function<void()> done, Refused refused) {
  post([this, entry = find(name), done = std::move(done), refused = std::move(refused)] {
    if (unload_if_idle(*entry, "as asked")) return done();
    bool is_loaded = false;
    {
      const std::lock_guard lock(mutex_);
      is_loaded = entry->loaded != nullptr;
    }
    if (!is_loaded) return done();
    refused(std::make_exception_ptr(
        RequestError(409,
                     fmt::format("{} is in use: {} sequences run or wait; try again later",
                                 in_quotes(entry->source.name), entry->books->admission.inside()),
                     "model", "model_in_use")));
  });
}

void Models::unload_idle() {
  if (options_.unload_after.count() == 0) return;
  const Clock::time_point now = Clock::now();
  for (const auto& entry : entries_) {
    {
      const std::lock_guard lock(mutex_);
      if (!entry->is_idle()) entry->last_used = now;
      if (now - entry->last_used < options_.unload_after) continue;
    }
    unload_if_idle(*entry, "because nobody used it");
  }
}

/// On the thread that loads, which alone changes `loaded`, so it needs no lock.
void Models::look_for_losses() {
  for (const auto& entry : entries_)
    if (entry->loaded)
      if (const llm::EngineStats stats = entry->loaded->engine.stats(); stats.has_lost_device)
        return options_.on_lost(stats.loss);
}

bool Models::has_lost_device() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry->loaded && entry->loaded->engine.stats().has_lost_device;
  });
}

void Models::drain() {
  is_draining_ = true;
  for (const auto& entry : entries_) entry->books->admission.close();
}

bool Models::are_all_full() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry->books->admission.is_full(); });
}

std::vector<ModelStatus> Models::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelStatus> all;
  for (const auto& entry : entries_) all.push_back(entry->status());
  return all;
}

ModelStatus Models::status(const std::string& name) const {
  const auto entry = find(name);
  const std::lock_guard lock(mutex_);
  return entry->status();
}

void Models::add_metrics(MetricsPage& page) const {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    ModelMoment moment{.admitted = entry->books->admission.inside(), .bytes = entry->bytes};
    if (entry->loaded)
      moment.engine = {entry->loaded->engine.stats(), entry->loaded->engine.memory().pages};
    entry->books->metrics.add_to(page, moment);
  }
}

std::vector<ModelStep> Models::steps(std::size_t most) const {
  std::vector<ModelStep> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : entries_)
      if (entry->loaded)
        for (const llm::StepRecord& record : entry->loaded->engine.records(most))
          all.push_back({entry->source.name, record});
  }
  std::stable_sort(all.begin(), all.end(), [](const ModelStep& a, const ModelStep& b) {
    return a.record.ended < b.record.ended;
  });
  all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(std::min(most, all.size())));
  return all;
}

}  // namespace attacca::server
