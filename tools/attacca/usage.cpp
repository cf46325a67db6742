// usage.cpp: see usage.hpp.
#include "usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "nearest.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

const CLI::App* chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : chosen.back();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string no_command(const CLI::App& app, const std::string& name) {
  return fmt::format("no command '{}'; the nearest is {}", name, nearest(name, command_names(app)));
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

bool is_part_of_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-';
}

/// Every `from` that is a word of its own becomes `to`.
void replace_words(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    const std::size_t end = at + from.size();
    const bool is_word = (at == 0 || !is_part_of_name(text[at - 1])) &&
                         (end == text.size() || !is_part_of_name(text[end]));
    if (is_word) text.replace(at, from.size(), to);
    at += is_word ? to.size() : from.size();
  }
}

}  // namespace

std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  bool is_text = false;  // behind a --
  for (const char* const* word = argv + 1; word < argv + argc; ++word) {
    const std::string text = *word;
    const bool is_value = !is_text && !words.empty() && words.back() == "--same-bits" &&
                          (text == "on" || text == "off");
    is_text |= text == "--";
    if (is_value)
      words.back() += "=" + text;
    else
      words.push_back(text);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

void check_flags(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options())
      if (option->nonpositional() && option->get_items_expected_max() == 0)
        option->check(on_or_off());
}

void add_help(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "What a command does, and its options");
  const auto name = std::make_shared<std::string>();
  command->add_option("COMMAND", *name, "One of the commands; all of them if none is named");
  command->footer("Example:\n  attacca help run");
  command->callback([&app, name] {
    if (name->empty()) {
      fmt::print("{}",
                 app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
      return;
    }
    for (const CLI::App* about : std::as_const(app).get_subcommands({}))
      if (about->get_name() == *name) {
        fmt::print("{}", about->help(app.get_name()));
        return;
      }
    throw CLI::ValidationError(no_command(app, *name));
  });
}

std::string help_of(const CLI::App& app) {
  const CLI::App* const command = chosen_command(app);
  return command && command->get_name() != "help"
             ? fmt::format("{} {} --help", app.get_name(), command->get_name())
             : fmt::format("{} --help", app.get_name());
}

std::string unexpected_word(const CLI::App& app) {
  const CLI::App* const command = chosen_command(app);
  const std::vector<std::string> words = app.remaining(true);
  const std::string word = words.empty() ? std::string() : words.front();
  if (word.starts_with("--")) {
    const std::string name = word.substr(2, word.find('=') - 2);
    return fmt::format("no option '--{}'; the nearest is --{}", name,
                       nearest(name, long_options(command ? *command : app)));
  }
  if (word.starts_with("-"))
    return fmt::format("no option '{}'; a word that begins with - goes behind a --", word);
  if (!command) return no_command(app, word);
  return fmt::format("'{}' is one word too many; put a text of several words in quotes", word);
}

std::string in_words_of_options(const CLI::App& app, std::string message) {
  replace_words(message, "Device::host()", "--device host");
  replace_words(message, "Device::best()", "--device best");
  const CLI::App* const command = chosen_command(app);
  if (!command) return message;
  for (const std::string& name : long_options(*command)) {
    std::string field = name;
    std::replace(field.begin(), field.end(), '-', '_');
    // A name of one word may be any word, unless the message begins with it and its value.
    if (field != name || message.starts_with(field + " is ")) {
      const std::size_t length = field == name ? field.size() : message.size();
      std::string start = message.substr(0, length);
      replace_words(start, field, "--" + name);
      message = start + message.substr(length);
    }
  }
  return message;
}

}  // namespace attacca::tool
