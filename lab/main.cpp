// main.cpp: attacca_lab, the command line of the lab. It only parses; the measurements are in
// products.cpp and copies.cpp.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>

#include "lab.hpp"

namespace {

using namespace attacca;

int explain() {
  std::fprintf(
      stderr,
      "attacca_lab products [ROWS]  a variant of streamed_linear against the library's, with 1 "
      "to %u rows of x (1)\n"
      "attacca_lab copies           how fast rows come to shared memory, by where they "
      "land\n",
      lab::kMaxRows);
  return 2;
}

/// The number of rows, or 0 if `text` is none.
std::uint32_t rows_from(const char* text) {
  std::uint32_t rows = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, rows);
  return error == std::errc{} && rest == end && rows <= lab::kMaxRows ? rows : 0;
}

}  // namespace

int main(int count, char** words) {
  const bool is_products = count >= 2 && std::strcmp(words[1], "products") == 0;
  const bool is_copies = count == 2 && std::strcmp(words[1], "copies") == 0;
  const std::uint32_t rows = count == 3 ? rows_from(words[2]) : 1;
  if (!(is_copies || (is_products && count <= 3 && rows != 0))) return explain();
  try {
    if (is_products)
      lab::compare_products(rows);
    else
      lab::time_copies();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attacca_lab: %s\n", error.what());
    return 1;
  }
  return 0;
}
