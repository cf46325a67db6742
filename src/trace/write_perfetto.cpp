// write_perfetto.cpp: writes a trace as Perfetto's protobuf: a descriptor for each process and
// track, then a packet for each begin and each end. The few messages are written by hand; their
// fields have the numbers of protos/perfetto/trace in Perfetto's repository.
#include <attacca/trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>

#include "graph/print.hpp"
#include "trace/slices.hpp"

namespace attacca {

namespace {

/// A message of protobuf, field after field.
class Message {
 public:
  void number(unsigned field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void real(unsigned field, double value) {
    varint(field << 3 | 1);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (int byte = 0; byte < 8; ++byte) bytes_ += static_cast<char>(bits >> 8 * byte & 0xff);
  }
  void text(unsigned field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(unsigned field, const Message& value) { text(field, value.bytes_); }
  std::string take() { return std::move(bytes_); }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// Numbers of fields, and values of enumerations.
namespace packet {
constexpr unsigned kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kTrackDescriptor = 60;
}
namespace track {
constexpr unsigned kUuid = 1, kName = 2, kProcess = 3, kParent = 5;
}
namespace process {
constexpr unsigned kPid = 1, kName = 6;
}
namespace event {
constexpr unsigned kAnnotation = 4, kType = 9, kTrackUuid = 11, kCategory = 22, kName = 23;
constexpr std::uint64_t kBegin = 1, kEnd = 2;
}  // namespace event
namespace annotation {
constexpr unsigned kUint = 3, kInt = 4, kReal = 5, kText = 6, kName = 10;
}

/// Protobuf's strings are UTF-8; other bytes become U+FFFD.
std::string utf8(std::string_view text) {
  return graph::escaped(text, [](std::string&, char) { return false; });
}

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace) {
    for (const TraceSlice& slice : trace.slices) origin_ = std::min(origin_, slice.begin_ns);
  }

  std::string written() {
    describe_tracks();
    std::vector<std::vector<const TraceSlice*>> of_track(trace_.tracks.size());
    for (const TraceSlice& slice : trace_.slices) of_track.at(slice.track).push_back(&slice);
    for (std::size_t track = 0; track < of_track.size(); ++track) {
      std::stable_sort(of_track[track].begin(), of_track[track].end(),
                       [](auto* a, auto* b) { return trace::is_earlier(*a, *b); });
      add_track(track, of_track[track]);
    }
    return trace_file_.take();
  }

 private:
  static constexpr unsigned kPacket = 1;  // of the file
  static constexpr std::uint64_t kSequence = 1;
  /// Processes come first, so that no uuid is used twice.
  std::uint64_t track_uuid(std::size_t track) const { return trace_.tracks.size() + track + 1; }

  void describe_tracks() {
    std::map<std::string, std::uint64_t> processes;
    for (std::size_t at = 0; at < trace_.tracks.size(); ++at) {
      const TraceTrack& track = trace_.tracks[at];
      const auto [found, is_new] = processes.try_emplace(track.process, processes.size() + 1);
      if (is_new) {
        Message process, descriptor;
        process.number(process::kPid, found->second);
        process.text(process::kName, utf8(track.process));
        descriptor.number(track::kUuid, found->second);
        descriptor.message(track::kProcess, process);
        add_descriptor(descriptor);
      }
      Message descriptor;
      descriptor.number(track::kUuid, track_uuid(at));
      descriptor.text(track::kName, utf8(track.name));
      descriptor.number(track::kParent, found->second);
      add_descriptor(descriptor);
    }
  }
  void add_descriptor(const Message& descriptor) {
    Message packet;
    packet.number(packet::kSequence, kSequence);
    packet.message(packet::kTrackDescriptor, descriptor);
    trace_file_.message(kPacket, packet);
  }

  /// Ends come before the begins of the same moment. A slice that would cross the end of the one
  /// around it ends there, because an end closes the innermost slice.
  void add_track(std::size_t track, const std::vector<const TraceSlice*>& slices) {
    std::vector<std::int64_t> open;  // ends, outermost first
    const auto close_until = [&](std::int64_t moment) {
      for (; !open.empty() && open.back() <= moment; open.pop_back()) end(track, open.back());
    };
    for (const TraceSlice* slice : slices) {
      close_until(slice->begin_ns);
      begin(track, *slice);
      const std::int64_t ends = std::max(slice->begin_ns, slice->end_ns);
      open.push_back(open.empty() ? ends : std::min(ends, open.back()));
    }
    close_until(INT64_MAX);
  }
  void begin(std::size_t track, const TraceSlice& slice) {
    Message message;
    message.number(event::kType, event::kBegin);
    message.number(event::kTrackUuid, track_uuid(track));
    message.text(event::kCategory, trace_.tracks[track].has_ranges ? "range" : "node");
    message.text(event::kName, utf8(slice.name));
    annotate(message, slice);
    add_event(slice.begin_ns, message);
  }
  void end(std::size_t track, std::int64_t moment) {
    Message message;
    message.number(event::kType, event::kEnd);
    message.number(event::kTrackUuid, track_uuid(track));
    add_event(moment, message);
  }
  void add_event(std::int64_t moment, const Message& message) {
    Message packet;
    packet.number(packet::kTimestamp, static_cast<std::uint64_t>(moment - origin_));
    packet.number(packet::kSequence, kSequence);
    packet.message(packet::kTrackEvent, message);
    trace_file_.message(kPacket, packet);
  }

  static void annotate(Message& to, const TraceSlice& slice) {
    const auto add = [&](std::string_view name, const auto& put) {
      Message annotation;
      annotation.text(annotation::kName, utf8(name));
      put(annotation);
      to.message(event::kAnnotation, annotation);
    };
    if (!slice.graph.empty())
      add("graph", [&](Message& m) { m.text(annotation::kText, utf8(slice.graph)); });
    if (slice.launch != 0)
      add("launch", [&](Message& m) { m.number(annotation::kUint, slice.launch); });
    if (slice.iteration != 0)
      add("iteration", [&](Message& m) { m.number(annotation::kUint, slice.iteration); });
    for (const auto& [name, value] : slice.arguments)
      add(name, [&, &given = value](Message& m) {
        if (const auto* number = std::get_if<std::int64_t>(&given))
          m.number(annotation::kInt, static_cast<std::uint64_t>(*number));
        else
          m.text(annotation::kText, utf8(std::get<std::string>(given)));
      });
    if (slice.cost.flops > 0)
      add("flops", [&](Message& m) { m.real(annotation::kReal, slice.cost.flops); });
    if (slice.cost.bytes > 0)
      add("bytes", [&](Message& m) { m.real(annotation::kReal, slice.cost.bytes); });
  }

  const Trace& trace_;
  std::int64_t origin_ = INT64_MAX;
  Message trace_file_;
};

}  // namespace

std::string to_perfetto(const Trace& trace) {
  trace::check_slices(trace);
  return Writer(trace).written();
}

}  // namespace attacca
