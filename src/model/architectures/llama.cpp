// llama.cpp: describes Llama and the models of its shape, Mistral and SmolLM2. Their GGUF files
// hold the rows of queries and keys in another order, so that RoPE rotates neighbouring elements.
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
