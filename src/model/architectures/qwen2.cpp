// qwen2.cpp: describes Qwen2 and Qwen2.5, where queries, keys and values have biases.
#include "model/architecture.hpp"

namespace attacca::model {

Architecture qwen2() {
  return {.name = "qwen2",
          .hf_names = {"Qwen2ForCausalLM"},
          .model_types = {"qwen2"},
          .has_qkv_bias = true,
          .tensors = decoder_tensors(true, false)};
}

}  // namespace attacca::model
