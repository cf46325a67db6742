// bench_folder.cpp: makes the folder of a benchmark's files and removes it.
#include "llm/bench_folder.hpp"

#include <fmt/core.h>

#include <attacca/error.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bench {

BenchFolder::BenchFolder() {
  const std::filesystem::path parent = std::filesystem::temp_directory_path();
  std::string name = (parent / "attacca-bench-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw attacca::Error(
        fmt::format("cannot make a folder in '{}': {}; set TMPDIR to one that can be written",
                    parent.string(), std::strerror(errno)));
  path_ = name;
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace bench
