// open.hpp: opens the tokenizer of a model on disk. The parsing is in json_reader.cpp and
// from_vocabulary.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "text/tokenizer/tokenizer.hpp"

namespace attacca::formats {
class GgufFile;
}

namespace attacca::text {

/// `path`: a folder with a tokenizer.json, a tokenizer.json (a tokenizer_config.json beside it is
/// read too), or a GGUF file.
Tokenizer open_tokenizer(const std::filesystem::path& path);

/// The tokenizer in a GGUF file's metadata. The file may be closed afterwards.
Tokenizer read_tokenizer(const formats::GgufFile& file);

/// Throws BadArgument with the first token whose id is not below `vocabulary`, the number of rows
/// of the model's embedding: the kernel would read past its end. Fewer tokens than rows are fine.
void check_ids(const Tokenizer& tokenizer, std::uint32_t vocabulary, const std::string& where);

}  // namespace attacca::text
