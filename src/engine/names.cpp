// names.cpp: the names of llm.hpp's enumerations, as options, reports and JSON spell them.
#include <attacca/llm.hpp>

namespace attacca::llm {

const char* finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::cancelled:
      return "cancelled";
    case Finish::failed:
      return "failed";
    case Finish::deadline:
      return "deadline";
  }
  return "";
}

const char* priority_name(Priority priority) {
  constexpr const char* kNames[] = {"high", "normal", "low"};
  return kNames[static_cast<std::size_t>(priority)];
}

const char* step_form_name(StepForm form) {
  constexpr const char* kNames[] = {"automatic", "kernels", "persistent"};
  return kNames[static_cast<std::size_t>(form)];
}

const char* scheduler_name(Scheduler scheduler) {
  constexpr const char* kNames[] = {"automatic", "host", "resident"};
  return kNames[static_cast<std::size_t>(scheduler)];
}

const char* resident_loop_name(ResidentLoop loop) {
  constexpr const char* kNames[] = {"while-node", "self-relaunch"};
  return kNames[static_cast<std::size_t>(loop)];
}

const char* weight_format_name(WeightFormat format) {
  return format == WeightFormat::fp8 ? "fp8" : "as-stored";
}

const char* kv_type_name(KvType type) {
  constexpr const char* kNames[] = {"automatic", "f32", "bf16", "f16", "fp8"};
  return kNames[static_cast<std::size_t>(type)];
}

const char* graph_mode_name(GraphMode mode) {
  constexpr const char* kNames[] = {"full", "piecewise", "decode", "off"};
  return kNames[static_cast<std::size_t>(mode)];
}

const char* step_mode_name(StepMode mode) {
  constexpr const char* kNames[] = {"decode", "mixed", "piecewise", "kernels"};
  return kNames[static_cast<std::size_t>(mode)];
}

}  // namespace attacca::llm
