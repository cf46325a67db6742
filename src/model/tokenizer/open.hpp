// open.hpp: the tokenizer of a model on disk.
#pragma once

#include <filesystem>

#include "model/tokenizer/tokenizer.hpp"

namespace attacca::model {

class GgufFile;

/// `path`: a folder with a tokenizer.json, a tokenizer.json (a tokenizer_config.json beside it is
/// read too), or a GGUF file.
Tokenizer open_tokenizer(const std::filesystem::path& path);

/// The tokenizer in a GGUF file's metadata. The file may be closed afterwards.
Tokenizer read_tokenizer(const GgufFile& file);

}  // namespace attacca::model
