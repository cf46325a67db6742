// files.cpp: writes whole files, and tries whether they can be written.
#include "files.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <attacca/error.hpp>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace attacca::tool {

void write_file(const std::filesystem::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush())
    throw Error(fmt::format("cannot write '{}': {}", path.string(),
                            std::generic_category().message(errno)));
}

void require_writable(const std::filesystem::path& path) {
  const bool is_new = !std::filesystem::exists(path);
  errno = 0;
  if (!std::ofstream(path, std::ios::app))
    throw Error(fmt::format("cannot write '{}': {}; name another file", path.string(),
                            std::generic_category().message(errno)));
  if (is_new) std::filesystem::remove(path);
}

void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace attacca::tool
