// main.cpp: attacca_lab, the command line of the lab. It only parses; the measurements are in
// products.cpp, tiles.cpp, phases.cpp and copies.cpp.
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
      "attacca_lab tiles [ROWS]     the forms of tiled_linear beside cuBLASLt, with 1 to %u rows "
      "of x (64)\n"
      "attacca_lab phases SHAPE ROWS  how long the blocks of a persistent step wait and work\n"
      "attacca_lab copies           how fast rows come to shared memory, by where they "
      "land\n",
      lab::kMaxRows, lab::kMaxTiledRows);
  return 2;
}

/// The number of rows, or 0 if `text` is none up to `most`.
std::uint32_t rows_from(const char* text, std::uint32_t most) {
  std::uint32_t rows = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, rows);
  return error == std::errc{} && rest == end && rows <= most ? rows : 0;
}

}  // namespace

int main(int count, char** words) {
  const auto is = [&](const char* name) { return count >= 2 && std::strcmp(words[1], name) == 0; };
  const auto rows = [&](std::uint32_t usual, std::uint32_t most) {
    return count == 2 ? usual : count == 3 ? rows_from(words[2], most) : 0;
  };
  const std::uint32_t few = rows(1, lab::kMaxRows), many = rows(64, lab::kMaxTiledRows);
  try {
    if (is("products") && few != 0)
      lab::compare_products(few);
    else if (is("tiles") && many != 0)
      lab::compare_tiles(many);
    else if (is("phases") && count == 4 && rows_from(words[3], 16) != 0)
      lab::time_phases(words[2], rows_from(words[3], 16));
    else if (is("copies") && count == 2)
      lab::time_copies();
    else
      return explain();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attacca_lab: %s\n", error.what());
    return 1;
  }
  return 0;
}
