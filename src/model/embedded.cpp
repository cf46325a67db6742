// embedded.cpp: links the model's file in. The assembler puts its bytes among the program's
// constants, and the operating system maps them as it would map the file.
#include "model/embedded.hpp"

#include <span>

#include "core/linked_file.hpp"

ATTACCA_LINK_FILE(attacca_small, ATTACCA_SMALL_GGUF);

namespace attacca::model {

Checkpoint open_embedded() {
  return Checkpoint::parse(std::as_bytes(std::span(attacca_small_begin, attacca_small_end)),
                           "the embedded model");
}

}  // namespace attacca::model
