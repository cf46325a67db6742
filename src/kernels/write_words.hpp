// write_words.hpp: scattered words of a device's memory, written by one kernel: what the host has
// changed since the step before.
#pragma once

#include <attacca/kernel.hpp>

namespace attacca::kernels {

struct WordsWrite {
  std::uint32_t* to;
  std::uint32_t first;  // of `words`
  std::uint32_t count;
};

struct WriteWordsArgs {
  const WordsWrite* writes;    // [count], to places that do not overlap
  const std::uint32_t* words;  // of all of them
  std::uint32_t count;
};

const Kernel<WriteWordsArgs>& write_words();
Grid grid_of(const WriteWordsArgs& args, bool is_cuda);

}  // namespace attacca::kernels
