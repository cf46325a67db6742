// write_words.cpp: the kernel of write_words.hpp, one block for each write.
#include "kernels/write_words.hpp"

namespace attacca::kernels {
namespace {

struct WriteWords {
  static constexpr const char* name = "write_words";
  using Args = WriteWordsArgs;

  static Cost cost(const Args& a) {
    return {.flops = 0, .bytes = 1.0 * a.count * sizeof(WordsWrite)};
  }

  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const WordsWrite write = a.writes[t.block.x];
    for (std::uint32_t at = t.thread.x; at < write.count; at += t.threads.x)
      write.to[at] = a.words[write.first + at];
  }
};

}  // namespace

const Kernel<WriteWordsArgs>& write_words() {
  static const Kernel<WriteWordsArgs> kernel = make_kernel<WriteWords>();
  return kernel;
}

Grid grid_of(const WriteWordsArgs& args, bool is_cuda) {
  return Grid{Dim3{args.count}, Dim3{is_cuda ? 128u : 1u}};
}

}  // namespace attacca::kernels
