// usage.hpp: errors in the words of the command line, and `attacca help`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace attacca::tool {

/// The command line's words in the order that CLI11 wants them, the last one first. A flag that an
/// "on" or "off" may follow is joined with it, which CLI11 does not do: --same-bits=off.
std::vector<std::string> words_of(int argc, const char* const* argv);

/// Has every flag of every command take on and off only, as in --json=off.
void check_flags(CLI::App& app);

/// Adds `attacca help [COMMAND]`.
void add_help(CLI::App& app);

/// "attacca run --help" where a command was chosen, else "attacca --help".
std::string help_of(const CLI::App& app);

/// What is wrong with a word that no option and no command took, with the nearest that would.
std::string unexpected_word(const CLI::App& app);

/// A library's message with its fields called by the options that set them: "kv_type is fp8"
/// becomes
/// "--kv-type is fp8".
std::string in_words_of_options(const CLI::App& app, std::string message);

}  // namespace attacca::tool
