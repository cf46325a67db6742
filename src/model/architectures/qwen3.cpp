// qwen3.cpp: describes Qwen3, where each head's queries and keys are normalized before RoPE.
#include "model/architecture.hpp"

namespace attacca::model {

Architecture qwen3() {
  return {.name = "qwen3",
          .hf_names = {"Qwen3ForCausalLM"},
          .model_types = {"qwen3"},
          .has_qk_norm = true,
          .tensors = decoder_tensors(false, true)};
}

}  // namespace attacca::model
