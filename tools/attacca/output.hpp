// output.hpp: standard output that notices when it cannot be written.
#pragma once

#include <string_view>

namespace attacca::tool {

/// Writes to standard output at once. False where that failed; `finish_output` says why.
bool write_out(std::string_view text);

/// Throws Error where something written to standard output did not arrive. main calls it last.
void finish_output();

}  // namespace attacca::tool
