// llama2c.hpp: checkpoints in the format of llama2.c, made into GGUF files.
#pragma once

#include <filesystem>

namespace attacca::formats {

/// Reads a checkpoint and its tokenizer (tok*.bin), and writes an F32 GGUF file of architecture
/// llama with a SentencePiece vocabulary. Throws BadArgument with the file, the offset and the
/// field for what it cannot use; then nothing is written.
void convert_llama2c(const std::filesystem::path& checkpoint,
                     const std::filesystem::path& tokenizer, const std::filesystem::path& output);

}  // namespace attacca::formats
