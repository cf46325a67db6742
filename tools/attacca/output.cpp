// output.cpp: flushes standard output and turns a failed write into an Error.
#include "output.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace attacca::tool {

namespace {
int first_error = 0;
}

bool write_out(std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return true;
  if (first_error == 0) first_error = errno;
  return false;
}

void finish_output() {
  const bool is_flushed = std::fflush(stdout) == 0;
  if (first_error == 0 && !is_flushed) first_error = errno;
  if (first_error == 0 && std::ferror(stdout) == 0) return;
  throw Error(fmt::format("standard output cannot be written: {}; give it somewhere else to go",
                          first_error != 0 ? std::generic_category().message(first_error)
                                           : std::string("an earlier write failed")));
}

}  // namespace attacca::tool
