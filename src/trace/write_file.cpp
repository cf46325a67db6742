// write_file.cpp: writes a trace in the format that the file's name asks for.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/trace.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace attacca {

namespace {

std::string in_format(const Trace& trace, const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".pftrace" || ending == ".perfetto-trace") return to_perfetto(trace);
  if (ending == ".html" || ending == ".htm") return to_trace_page(trace, path.stem().string());
  return to_chrome_json(trace);
}

}  // namespace

void write_trace(const Trace& trace, const std::string& path) {
  const std::string text = in_format(trace, path);
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush())
    throw Error(fmt::format("cannot write the trace '{}': {}; name another file", path,
                            std::generic_category().message(errno)));
}

}  // namespace attacca
