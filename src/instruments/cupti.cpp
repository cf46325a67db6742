// cupti.cpp: finds CUPTI with dlopen, starts and stops its activity records and turns them into
// spans, and counts calls. Only this file knows CUPTI.
#include "instruments/cupti.hpp"

#if ATTACCA_WITH_CUDA && __has_include(<cupti.h>)

#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "core/clock.hpp"

namespace attacca::instruments {

void* cupti_library(std::string& why_not) {
  static void* const library = [] {
    void* found = nullptr;
    for (const char* name :
         {"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so.13",
          "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"})
      if (!found) found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return found;
  }();
  if (!library)
    why_not =
        "libcupti.so.13 was not found; it comes with the CUDA toolkit (package cuda-cupti-13-0)";
  return library;
}

namespace {

constexpr std::size_t kBufferBytes = 4 << 20;
constexpr std::size_t kMostSpans = 4'000'000;
constexpr std::array kKinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMSET};

/// The few functions we call.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableDomain) enable_domain = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetGraphNodeId) graph_node_id = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  std::string why_not;

  Cupti() {
    void* const library = cupti_library(why_not);
    if (!library) return;
    const auto load = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (!function) why_not = fmt::format("libcupti.so has no {}", name);
    };
    load(register_callbacks, "cuptiActivityRegisterCallbacks");
    load(enable, "cuptiActivityEnable");
    load(disable, "cuptiActivityDisable");
    load(flush_all, "cuptiActivityFlushAll");
    load(next_record, "cuptiActivityGetNextRecord");
    load(subscribe, "cuptiSubscribe");
    load(unsubscribe, "cuptiUnsubscribe");
    load(enable_domain, "cuptiEnableDomain");
    load(enable_callback, "cuptiEnableCallback");
    load(graph_node_id, "cuptiGetGraphNodeId");
    load(timestamp, "cuptiGetTimestamp");
  }
};

/// "Relax" from "void attacca::detail::plain_kernel<heat::Relax>(…)"; else the name without its
/// parameters.
std::string short_name(const char* mangled) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : mangled;
  std::free(demangled);
  if (const auto open = name.find("_kernel<"); open != std::string::npos) {
    const auto start = open + 8;
    name = name.substr(start, name.find_first_of(",>", start) - start);
  } else {
    name = name.substr(0, name.find('('));
  }
  const auto colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

/// Spans of all recorders; CUPTI's callbacks for buffers carry no context. Times are CUPTI's.
struct Store {
  std::mutex mutex;
  std::vector<GpuSpan> spans;
  std::size_t dropped = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> originals;  // of nodes that instantiation cloned
};
Store& store() {
  static auto& instance = *new Store;
  return instance;
}
Cupti& cupti() {
  static auto& instance = *new Cupti;
  return instance;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  const std::lock_guard lock(store().mutex);
  const auto keep = [](std::string name, const auto& record) {
    if (store().spans.size() == kMostSpans) {
      ++store().dropped;
      return;
    }
    store().spans.push_back({std::move(name), static_cast<std::int64_t>(record.start),
                             static_cast<std::int64_t>(record.end), record.streamId,
                             record.graphNodeId});
  };
  CUpti_Activity* record = nullptr;
  while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      keep(short_name(kernel->name), *kernel);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      keep("copy", *copy);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      keep("fill", *fill);
    }
  }
  std::free(buffer);
}

class CuptiRecorder final : public GpuRecorder {
 public:
  explicit CuptiRecorder(std::string& why_not) {
    {
      const std::lock_guard lock(store().mutex);
      store().spans.clear();
      store().dropped = 0;
      store().originals.clear();
    }
    if (cupti().register_callbacks(&give_buffer, &take_buffer) != CUPTI_SUCCESS)
      why_not = "CUPTI refused its callbacks; is a profiler attached?";
    for (const CUpti_ActivityKind kind : kKinds) {
      const CUptiResult result = cupti().enable(kind);
      if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
        why_not =
            "CUPTI may not record kernels; run as root, or load the kernel module nvidia with "
            "NVreg_RestrictProfilingToAdminUsers=0";
      else if (result != CUPTI_SUCCESS)
        why_not = "CUPTI refused to record kernels";
    }
    // Without a subscriber spans have the names of functions instead of nodes.
    if (cupti().subscribe(&subscriber_, &CuptiRecorder::cloned, nullptr) != CUPTI_SUCCESS) return;
    is_subscribed_ = true;
    (void)cupti().enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE,
                                  CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
  }
  ~CuptiRecorder() override {
    if (is_subscribed_) (void)cupti().unsubscribe(subscriber_);
    for (const CUpti_ActivityKind kind : kKinds) (void)cupti().disable(kind);
    (void)cupti().flush_all(0);
  }
  std::vector<GpuSpan> spans() override {
    (void)cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::uint64_t theirs = 0;
    const std::int64_t ours = now_ns();
    const bool has_clock = cupti().timestamp(&theirs) == CUPTI_SUCCESS;
    const std::int64_t offset = has_clock ? ours - static_cast<std::int64_t>(theirs) : 0;
    const std::lock_guard lock(store().mutex);
    std::vector<GpuSpan> spans = store().spans;
    for (GpuSpan& span : spans) {
      span.start_ns += offset;
      span.end_ns += offset;
      if (const auto found = store().originals.find(span.node); found != store().originals.end())
        span.node = found->second;
    }
    return spans;
  }
  std::uint64_t number_of(void* native) override {
    std::uint64_t number = 0;
    const CUptiResult result = cupti().graph_node_id(static_cast<CUgraphNode>(native), &number);
    return result == CUPTI_SUCCESS ? number : 0;
  }
  std::size_t dropped() const override {
    const std::lock_guard lock(store().mutex);
    return store().dropped;
  }

 private:
  /// Instantiation clones the nodes of a graph, and records name the clones.
  static void CUPTIAPI cloned(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
    const auto* resource = static_cast<const CUpti_ResourceData*>(data);
    const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
    std::uint64_t clone = 0, original = 0;
    if (!graph || cupti().graph_node_id(graph->node, &clone) != CUPTI_SUCCESS ||
        cupti().graph_node_id(graph->originalNode, &original) != CUPTI_SUCCESS)
      return;
    const std::lock_guard lock(store().mutex);
    const auto further = store().originals.find(original);  // a clone of a clone
    store().originals[clone] = further != store().originals.end() ? further->second : original;
  }

  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool is_subscribed_ = false;
};

class CuptiCallCounter final : public CallCounter {
 public:
  explicit CuptiCallCounter(std::string& why_not) {
    if (cupti().subscribe(&subscriber_, &CuptiCallCounter::count, &calls_) != CUPTI_SUCCESS) {
      why_not = "CUPTI takes no subscriber; is a profiler attached?";
      return;
    }
    is_subscribed_ = true;
    if (cupti().enable_domain(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS)
      why_not = "CUPTI refused to report calls of the driver";
  }
  ~CuptiCallCounter() override {
    if (is_subscribed_) (void)cupti().unsubscribe(subscriber_);
  }
  std::uint64_t calls() const override { return calls_.load(std::memory_order_relaxed); }

 private:
  static void CUPTIAPI count(void* calls, CUpti_CallbackDomain, CUpti_CallbackId,
                             const void* data) {
    if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER)
      static_cast<std::atomic<std::uint64_t>*>(calls)->fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> calls_ = 0;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool is_subscribed_ = false;
};

}  // namespace

std::unique_ptr<CallCounter> start_call_counter(std::string& why_not) {
  why_not = cupti().why_not;
  if (!why_not.empty()) return nullptr;
  auto counter = std::make_unique<CuptiCallCounter>(why_not);
  return why_not.empty() ? std::move(counter) : nullptr;
}

std::unique_ptr<GpuRecorder> start_gpu_recorder(std::string& why_not) {
  why_not = cupti().why_not;
  if (!why_not.empty()) return nullptr;
  auto recorder = std::make_unique<CuptiRecorder>(why_not);
  return why_not.empty() ? std::move(recorder) : nullptr;
}

}  // namespace attacca::instruments

#else

namespace attacca::instruments {

namespace {
constexpr const char* kNoHeader =
    "this attacca was built without CUPTI's header; it comes with the CUDA toolkit";
}

void* cupti_library(std::string& why_not) {
  why_not = kNoHeader;
  return nullptr;
}

std::unique_ptr<GpuRecorder> start_gpu_recorder(std::string& why_not) {
  why_not = kNoHeader;
  return nullptr;
}

std::unique_ptr<CallCounter> start_call_counter(std::string& why_not) {
  why_not = kNoHeader;
  return nullptr;
}

}  // namespace attacca::instruments

#endif
