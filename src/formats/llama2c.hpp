// llama2c.hpp: converts llama2.c checkpoints to GGUF files. Nothing else reads that format.
#pragma once

#include <filesystem>

namespace attacca::formats {

/// Reads a checkpoint and its tokenizer (tok*.bin), and writes an F32 GGUF file of architecture
/// llama with a SentencePiece vocabulary. Throws BadArgument with the file, the offset and the
/// field, before it writes anything.
void convert_llama2c(const std::filesystem::path& checkpoint,
                     const std::filesystem::path& tokenizer, const std::filesystem::path& output);

}  // namespace attacca::formats
