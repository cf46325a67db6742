// write_words.hpp: one kernel that writes many scattered words of device memory: what the host has
// changed since the step before.
#pragma once

#include <attacca/kernel.hpp>

namespace attacca::kernels {

struct WordsWrite {
  std::uint32_t* to;
  std::uint32_t first;  // index of its first word in `words`
  std::uint32_t count;
};

struct WriteWordsArgs {
  const WordsWrite* writes;    // [count], to ranges that do not overlap
  const std::uint32_t* words;  // of all writes
  std::uint32_t count;
};

const Kernel<WriteWordsArgs>& write_words();
Grid grid_of(const WriteWordsArgs& args, bool is_cuda);

}  // namespace attacca::kernels
