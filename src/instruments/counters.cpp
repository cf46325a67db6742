// counters.cpp: one session of CUPTI's range profiler, with a range for each piece of work.
#include "instruments/counters.hpp"

#include "instruments/cupti.hpp"

#if ATTACCA_WITH_CUDA && __has_include(<cupti_range_profiler.h>)

#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "backend/cuda/current_device.hpp"

namespace attacca::instruments {

namespace {

constexpr int kMostPasses = 16;

/// What CUPTI calls a counter, and how many of it one is worth.
struct Metric {
  const char* name;
  double weight;
};
constexpr Metric kMemoryBytes[] = {{"dram__bytes.sum", 1}};
// For compute capability 9.0. A math operation of a matrix unit is a multiplication or an addition.
constexpr Metric kFlops[] = {{"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1},
                             {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1},
                             {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2},
                             {"sm__ops_path_tensor_src_bf16_dst_fp32.sum", 1},
                             {"sm__ops_path_tensor_src_fp16.sum", 1},
                             {"sm__ops_path_tensor_src_fp8.sum", 1}};
std::span<const Metric> metrics_of(Counter counter) {
  if (counter == Counter::memory_bytes) return kMemoryBytes;
  return kFlops;
}

struct Refused {
  std::string why;
};

/// Calls a function of CUPTI by its name, and throws Refused with what would help.
class Calls {
 public:
  explicit Calls(void* library) : library_(library) {}

  template <class Params>
  void operator()(const char* name, Params& params) const {
    using Function = CUptiResult (*)(Params*);
    const auto function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (!function)
      throw Refused{fmt::format("libcupti.so has no {}; it comes with CUDA 12.6 and later", name)};
    const CUptiResult result = function(&params);
    if (result == CUPTI_SUCCESS) return;
    if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
      throw Refused{
          "the driver lets only administrators read counters; run as root (in a container with "
          "CAP_SYS_ADMIN), or load the kernel module nvidia with "
          "NVreg_RestrictProfilingToAdminUsers=0"};
    throw Refused{fmt::format("CUPTI refused {} with result {}", name, static_cast<int>(result))};
  }

 private:
  void* library_;
};

/// A struct of CUPTI's with its size in it.
template <class Params>
Params sized(std::size_t size) {
  Params params{};
  params.structSize = size;
  return params;
}
#define ATTACCA_SIZED(type) sized<type>(type##_STRUCT_SIZE)

CUcontext current_context() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  CUcontext context = nullptr;
  (void)cudaFree(nullptr);  // makes the device's context, if there is none
  if (cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &function, 4000, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      !function || reinterpret_cast<PFN_cuCtxGetCurrent_v4000>(function)(&context) != CUDA_SUCCESS)
    throw Refused{"the device has no context"};
  return context;
}

/// Ends in the reverse order what was begun.
class Session {
 public:
  Session(const Calls& call, Counter counter, int device, std::size_t ranges)
      : call_(call), context_(current_context()) {
    auto start = ATTACCA_SIZED(CUpti_Profiler_Initialize_Params);
    call_("cuptiProfilerInitialize", start);
    try {
      make_config(device, metrics_of(counter));
      enable(ranges);
    } catch (...) {
      end();
      throw;
    }
  }
  ~Session() { end(); }
  Session(const Session&) = delete;

  void run(std::span<const std::function<void()>> work) {
    for (int pass = 0; pass < kMostPasses; ++pass) {
      auto start = ATTACCA_SIZED(CUpti_RangeProfiler_Start_Params);
      start.pRangeProfilerObject = ranges_;
      call_("cuptiRangeProfilerStart", start);
      for (std::size_t at = 0; at < work.size(); ++at) {
        const std::string name = std::to_string(at);
        auto push = ATTACCA_SIZED(CUpti_RangeProfiler_PushRange_Params);
        push.pRangeProfilerObject = ranges_;
        push.pRangeName = name.c_str();
        call_("cuptiRangeProfilerPushRange", push);
        work[at]();
        auto pop = ATTACCA_SIZED(CUpti_RangeProfiler_PopRange_Params);
        pop.pRangeProfilerObject = ranges_;
        call_("cuptiRangeProfilerPopRange", pop);
      }
      auto stop = ATTACCA_SIZED(CUpti_RangeProfiler_Stop_Params);
      stop.pRangeProfilerObject = ranges_;
      call_("cuptiRangeProfilerStop", stop);
      if (!stop.isAllPassSubmitted) continue;
      auto decode = ATTACCA_SIZED(CUpti_RangeProfiler_DecodeData_Params);
      decode.pRangeProfilerObject = ranges_;
      return call_("cuptiRangeProfilerDecodeData", decode);
    }
    throw Refused{fmt::format("{} needs more than {} passes", names_.front(), kMostPasses)};
  }

  std::vector<double> values(std::size_t count) {
    auto info = ATTACCA_SIZED(CUpti_RangeProfiler_GetCounterDataInfo_Params);
    info.pCounterDataImage = data_.data();
    info.counterDataImageSize = data_.size();
    call_("cuptiRangeProfilerGetCounterDataInfo", info);
    std::vector<double> values(count);
    for (std::size_t at = 0; at < info.numTotalRanges; ++at) {
      auto range = ATTACCA_SIZED(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params);
      range.pCounterDataImage = data_.data();
      range.counterDataImageSize = data_.size();
      range.rangeIndex = at;
      range.rangeDelimiter = "/";
      call_("cuptiRangeProfilerCounterDataGetRangeInfo", range);
      auto evaluate = ATTACCA_SIZED(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
      std::vector<double> each(names_.size());
      evaluate.pHostObject = host_;
      evaluate.pCounterDataImage = data_.data();
      evaluate.counterDataImageSize = data_.size();
      evaluate.rangeIndex = at;
      evaluate.ppMetricNames = names_.data();
      evaluate.numMetrics = names_.size();
      evaluate.pMetricValues = each.data();
      call_("cuptiProfilerHostEvaluateToGpuValues", evaluate);
      const auto number = static_cast<std::size_t>(std::strtoull(range.rangeName, nullptr, 10));
      if (number < count)
        values[number] = std::inner_product(each.begin(), each.end(), weights_.begin(), 0.0);
    }
    return values;
  }

 private:
  /// Refuses what this kind of GPU does not have: a count without it would be too low.
  void choose(std::span<const Metric> metrics) {
    for (const Metric& metric : metrics) {
      auto about = ATTACCA_SIZED(CUpti_Profiler_Host_GetMetricProperties_Params);
      about.pHostObject = host_;
      about.pMetricName = metric.name;
      try {
        call_("cuptiProfilerHostGetMetricProperties", about);
      } catch (const Refused&) {
        throw Refused{fmt::format("this kind of GPU has no counter {}", metric.name)};
      }
      names_.push_back(metric.name);
      weights_.push_back(metric.weight);
    }
  }

  void make_config(int device, std::span<const Metric> all) {
    auto chip = ATTACCA_SIZED(CUpti_Device_GetChipName_Params);
    chip.deviceIndex = static_cast<std::size_t>(device);
    call_("cuptiDeviceGetChipName", chip);
    // Without permission this is the first call that tells.
    auto available = ATTACCA_SIZED(CUpti_Profiler_GetCounterAvailability_Params);
    available.ctx = context_;
    call_("cuptiProfilerGetCounterAvailability", available);
    available_.resize(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = available_.data();
    call_("cuptiProfilerGetCounterAvailability", available);
    auto start = ATTACCA_SIZED(CUpti_Profiler_Host_Initialize_Params);
    start.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    start.pChipName = chip.pChipName;
    start.pCounterAvailabilityImage = available_.data();
    call_("cuptiProfilerHostInitialize", start);
    host_ = start.pHostObject;
    choose(all);
    auto metrics = ATTACCA_SIZED(CUpti_Profiler_Host_ConfigAddMetrics_Params);
    metrics.pHostObject = host_;
    metrics.ppMetricNames = names_.data();
    metrics.numMetrics = names_.size();
    call_("cuptiProfilerHostConfigAddMetrics", metrics);
    auto size = ATTACCA_SIZED(CUpti_Profiler_Host_GetConfigImageSize_Params);
    size.pHostObject = host_;
    call_("cuptiProfilerHostGetConfigImageSize", size);
    config_.resize(size.configImageSize);
    auto image = ATTACCA_SIZED(CUpti_Profiler_Host_GetConfigImage_Params);
    image.pHostObject = host_;
    image.configImageSize = config_.size();
    image.pConfigImage = config_.data();
    call_("cuptiProfilerHostGetConfigImage", image);
  }

  void enable(std::size_t ranges) {
    auto enable = ATTACCA_SIZED(CUpti_RangeProfiler_Enable_Params);
    enable.ctx = context_;
    call_("cuptiRangeProfilerEnable", enable);
    ranges_ = enable.pRangeProfilerObject;
    auto size = ATTACCA_SIZED(CUpti_RangeProfiler_GetCounterDataSize_Params);
    size.pRangeProfilerObject = ranges_;
    size.pMetricNames = names_.data();
    size.numMetrics = names_.size();
    size.maxNumOfRanges = ranges;
    size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(ranges);
    call_("cuptiRangeProfilerGetCounterDataSize", size);
    data_.resize(size.counterDataSize);
    auto image = ATTACCA_SIZED(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
    image.pRangeProfilerObject = ranges_;
    image.counterDataSize = data_.size();
    image.pCounterData = data_.data();
    call_("cuptiRangeProfilerCounterDataImageInitialize", image);
    auto config = ATTACCA_SIZED(CUpti_RangeProfiler_SetConfig_Params);
    config.pRangeProfilerObject = ranges_;
    config.configSize = config_.size();
    config.pConfig = config_.data();
    config.counterDataImageSize = data_.size();
    config.pCounterDataImage = data_.data();
    config.range = CUPTI_UserRange;
    config.replayMode = CUPTI_UserReplay;
    config.maxRangesPerPass = ranges;
    config.numNestingLevels = 1;
    config.minNestingLevel = 1;
    config.targetNestingLevel = 1;
    call_("cuptiRangeProfilerSetConfig", config);
  }

  void end() noexcept {
    const auto quietly = [&](const char* name, auto params) {
      try {
        call_(name, params);
      } catch (const Refused&) {
        // Nothing depends on it.
      }
    };
    if (ranges_) {
      auto disable = ATTACCA_SIZED(CUpti_RangeProfiler_Disable_Params);
      disable.pRangeProfilerObject = ranges_;
      quietly("cuptiRangeProfilerDisable", disable);
    }
    if (host_) {
      auto over = ATTACCA_SIZED(CUpti_Profiler_Host_Deinitialize_Params);
      over.pHostObject = host_;
      quietly("cuptiProfilerHostDeinitialize", over);
    }
    quietly("cuptiProfilerDeInitialize", ATTACCA_SIZED(CUpti_Profiler_DeInitialize_Params));
  }

  const Calls& call_;
  CUcontext context_;
  std::vector<const char*> names_;  // of the metrics
  std::vector<double> weights_;
  std::vector<std::uint8_t> available_, config_, data_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  CUpti_RangeProfiler_Object* ranges_ = nullptr;
};

#undef ATTACCA_SIZED

/// 1 of "cuda:1"
int number_of(const Device& device) {
  const std::string name = device.name();
  return std::atoi(name.c_str() + name.find(':') + 1);
}

}  // namespace

std::vector<double> count(Counter counter, const Device& device,
                          std::span<const std::function<void()>> work, std::string& why_not) {
  void* const library = cupti_library(why_not);
  if (!library || work.empty()) return {};
  try {
    const cuda::CurrentDevice current(number_of(device));
    const Calls call(library);
    Session session(call, counter, number_of(device), work.size());
    session.run(work);
    return session.values(work.size());
  } catch (const Refused& refused) {
    why_not = refused.why;
    return {};
  }
}

}  // namespace attacca::instruments

#else

namespace attacca::instruments {

std::vector<double> count(Counter, const Device&, std::span<const std::function<void()>>,
                          std::string& why_not) {
  why_not = "this attacca was built without CUPTI's headers; they come with the CUDA toolkit";
  return {};
}

}  // namespace attacca::instruments

#endif
