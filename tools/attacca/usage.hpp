// usage.hpp: the command line's words before CLI11 reads them, and errors in those words.
#pragma once

#include <string>
#include <vector>

namespace attacca::tool {

/// The words behind the program's name. The flag --same-bits is joined with the "on" or "off"
/// behind it, which CLI11 does not do. Any other single word there is refused: it may be a misspelt
/// value.
std::vector<std::string> words_of(int argc, const char* const* argv);

/// A library's message with its fields named by the options that set them: "kv_type is fp8" becomes
/// "--kv-type is fp8", and "slots = 8" becomes "--slots 8". `options`: long names, without the
/// dashes.
std::string in_words_of_options(const std::vector<std::string>& options, std::string message);

}  // namespace attacca::tool
