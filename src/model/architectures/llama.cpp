// llama.cpp: Llama, and what has its shape: Mistral, SmolLM2. GGUF files of it hold the rows of
// queries and keys reordered, so that neighbours rotate together.
#include "model/architecture.hpp"

namespace attacca::model {

Architecture llama() {
  return {.name = "llama",
          .hf_names = {"LlamaForCausalLM", "MistralForCausalLM"},
          .model_types = {"llama", "mistral"},
          .gguf_pairs = kernels::RotaryPairs::adjacent,
          .tensors = decoder_tensors(false, false)};
}

}  // namespace attacca::model
