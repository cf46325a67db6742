// embedded.cpp: links the model's file in. The assembler puts its bytes among the program's
// constants, and the operating system maps them as it would map the file.
#include "model/embedded.hpp"

#include <cstddef>

asm(R"(
  .pushsection .rodata
  .balign 64
  .global attacca_small_begin
attacca_small_begin:
  .incbin ")" ATTACCA_SMALL_GGUF R"("
  .global attacca_small_end
attacca_small_end:
  .byte 0
  .popsection
)");

extern "C" {
extern const std::byte attacca_small_begin[];
extern const std::byte attacca_small_end[];
}

namespace attacca::model {

Checkpoint open_embedded() {
  return Checkpoint::parse({attacca_small_begin, attacca_small_end}, "the embedded model");
}

}  // namespace attacca::model
