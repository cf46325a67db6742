// write_file.cpp: writes a trace in the format that the file's name asks for, and refuses traces
// that no format can hold.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/trace.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/in_quotes.hpp"
#include "trace/file_format.hpp"
#include "trace/slices.hpp"

namespace attacca {

namespace {

std::string in_format(const Trace& trace, const std::filesystem::path& path) {
  switch (trace::format_of(path).value_or(trace::FileFormat::json)) {
    case trace::FileFormat::perfetto:
      return to_perfetto(trace);
    case trace::FileFormat::page:
      return to_trace_page(trace, path.stem().string());
    default:
      return to_chrome_json(trace);
  }
}

}  // namespace

std::optional<trace::FileFormat> trace::format_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending.empty() || ending == ".json") return FileFormat::json;
  if (ending == ".pftrace" || ending == ".perfetto-trace") return FileFormat::perfetto;
  if (ending == ".html" || ending == ".htm") return FileFormat::page;
  return std::nullopt;
}

void trace::check_slices(const Trace& trace) {
  constexpr std::int64_t kMost = 4'000'000'000'000'000'000;
  for (const TraceSlice& slice : trace.slices) {
    if (slice.track >= trace.tracks.size())
      throw BadArgument(fmt::format("slice {} is on track {} of a trace with {}; add its track",
                                    in_quotes(slice.name), slice.track, trace.tracks.size()));
    for (const std::int64_t time : {slice.begin_ns, slice.end_ns})
      if (time < -kMost || time > kMost)
        throw BadArgument(
            fmt::format("slice {} has the time {} ns; times lie between -{} and {}, so take them "
                        "from one clock",
                        in_quotes(slice.name), time, kMost, kMost));
  }
}

void write_trace(const Trace& trace, const std::string& path) {
  const std::string text = in_format(trace, path);
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush())
    throw Error(fmt::format("cannot write the trace '{}': {}; name another file", path,
                            std::generic_category().message(errno)));
}

}  // namespace attacca
