// command_line.cpp: builds CLI11 options from our own descriptions, and says CLI11's errors in our
// own words.
#include "command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <attacca/error.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

#include "interrupt.hpp"
#include "nearest.hpp"
#include "usage.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

constexpr int kWrongUsage = 2;
constexpr const char* kPrintConfig = "--print-config";

/// The innermost command that was named.
const CLI::App* chosen_command(const CLI::App& app) {
  const CLI::App* command = nullptr;
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = command->get_subcommands())
    command = chosen.back();
  return command;
}

std::vector<std::string> long_options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

std::string no_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (names.empty())
    return fmt::format("{} has no commands of its own, such as '{}'", app.get_name(), name);
  return fmt::format("no command '{}'; the nearest is {}", name, nearest(name, names));
}

/// What is wrong with a word that no option and no command took, with the nearest that would.
std::string unexpected_word(const CLI::App& app) {
  const CLI::App* const command = chosen_command(app);
  const std::vector<std::string> words = app.remaining(true);
  const auto unread = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word != "--"; });
  const std::string word = unread == words.end() ? std::string() : *unread;
  if (word.starts_with("--")) {
    const std::string name = word.substr(2, word.find('=') - 2);
    return fmt::format("no option '--{}'; the nearest is --{}", name,
                       nearest(name, long_options_of(command ? *command : app)));
  }
  if (word.starts_with("-"))
    return fmt::format("no option '{}'; a word that begins with - goes behind a --", word);
  if (!command) return no_command(app, word);
  return fmt::format("'{}' is one word too many; put a text of several words in quotes", word);
}

/// Which required words and options are missing.
std::string missing_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : chosen_command(app)->get_options())
    if (option->get_required() && option->count() == 0) names.push_back(option->get_name());
  return fmt::format("{} {} missing", fmt::join(names, " and "), names.size() == 1 ? "is" : "are");
}

/// CLI11 begins its message with the option's name and a colon.
std::string missing_value(const CLI::App& app, const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  const CLI::App* const command = chosen_command(app);
  const CLI::Option* const option = command ? command->get_option_no_throw(name) : nullptr;
  return option ? fmt::format("{0} needs a value: {0} {1}", name, option->get_type_name())
                : message;
}

std::string help_of(const CLI::App& app) {
  std::string words = "--help";
  const CLI::App* command = chosen_command(app);
  if (command && command->get_name() == "help") command = nullptr;
  for (; command && command != &app; command = command->get_parent())
    words = command->get_name() + " " + words;
  return app.get_name() + " " + words;
}

/// A command within another one leaves the other's words and options unread.
void refuse_words_in_front(const CLI::App& command) {
  const CLI::App* const outer = command.get_parent();
  if (!outer || !outer->get_parent()) return;  // the program itself is outside
  for (const CLI::Option* option : outer->get_options())
    if (option->count() > 0)
      throw UsageError(
          fmt::format("'{}' stands in front of {} and would be ignored; leave it out",
                      option->results().empty() ? option->get_name() : option->results().front(),
                      command.get_name()));
}

bool is_control(char letter) { return std::iscntrl(static_cast<unsigned char>(letter)) != 0; }

/// In double quotes, which can say every character.
std::string escaped(const std::string& value) {
  std::string quoted = "\"";
  for (const char letter : value) {
    if (letter == '\n')
      quoted += "\\n";
    else if (is_control(letter))
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    else
      quoted +=
          letter == '"' || letter == '\\' ? std::string{'\\', letter} : std::string(1, letter);
  }
  return quoted + "\"";
}

/// A value as YAML: in quotes unless it is plain without them.
std::string yaml_text(const std::string& value) {
  constexpr std::array kNulls = {"null", "Null", "NULL"};
  if (std::any_of(value.begin(), value.end(), is_control)) return escaped(value);
  const auto is_plain = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_' || letter == '.' ||
           letter == '/' || letter == '-';
  };
  const bool is_null = std::find(kNulls.begin(), kNulls.end(), value) != kNulls.end();
  if (!value.empty() && value != "-" && !is_null &&
      std::all_of(value.begin(), value.end(), is_plain))
    return value;
  std::string quoted = "'";
  for (const char letter : value) quoted += letter == '\'' ? "''" : std::string(1, letter);
  return quoted + "'";
}

void print_config(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string name = option->get_lnames().front();
    if (name == "help" || name == "config" || "--" + name == kPrintConfig) continue;
    std::vector<std::string> values;
    const bool is_flag = option->get_items_expected_max() == 0;
    for (const std::string& value : option->results())
      values.push_back(!is_flag                                ? yaml_text(value)
                       : CLI::detail::to_flag_value(value) > 0 ? "true"
                                                               : "false");
    if (values.size() > 1)
      fmt::print("{}: [{}]\n", name, fmt::join(values, ", "));
    else if (values.size() == 1)
      fmt::print("{}: {}\n", name, values.front());
    else if (!option->get_default_str().empty())
      fmt::print("# {}: {}\n", name, yaml_text(option->get_default_str()));
  }
}

/// CLI11 gives an option whose value is left out an empty one, or braces.
bool has_no_value(const std::vector<std::string>& texts) {
  return texts.size() == 1 && (texts.front().empty() || texts.front() == "{}");
}

CLI::Validator on_or_off() {
  return {[](std::string& text) { return is_switch(text) ? std::string() : not_a_switch(text); },
          ""};
}

void read_values(const CLI::Option& option, const Value& value,
                 const std::vector<std::string>& texts) {
  if (option.get_items_expected_min() == 0 && has_no_value(texts)) return;
  if (texts.size() > 1 && !value.may_repeat)
    throw UsageError(fmt::format("{} is given {} times, as {}; give it once", option.get_name(),
                                 texts.size(), fmt::join(texts, " and ")));
  for (const std::string& text : texts) try {
      value.read(text);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", option.get_name(), error.what()));
    }
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::group(const std::string& heading) {
  option_->group(heading);
  return *this;
}
Option& Option::shows_default(const std::string& text) {
  option_->default_str(text);
  return *this;
}
Option& Option::may_be_bare() {
  option_->expected(0, 1);
  return *this;
}
bool Option::is_given() const { return option_->count() > 0; }
bool Option::is_bare() const { return is_given() && has_no_value(option_->results()); }

Option Command::option(const std::string& names, const Value& value, const std::string& help) {
  const auto self = std::make_shared<const CLI::Option*>();  // known only once it is added
  CLI::Option* const option = app_->add_option(
      names,
      [self, value](const CLI::results_t& texts) {
        read_values(**self, value, texts);
        return true;
      },
      help);
  *self = option;
  option->type_name(value.is_list ? value.type + ",..." : value.type)->take_all();
  if (value.is_list) option->delimiter(',');
  return Option(*option);
}

Option Command::words(const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return Option(*app_->add_option(name, values, help));
}

Option Command::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(*app_->add_flag(names, value, help)->check(on_or_off()));
}
Option Command::off_flag(const std::string& names, bool& value, const std::string& help) {
  const auto set = [&value](std::int64_t given) { value = given < 0; };  // -1: off
  return Option(*app_->add_flag_function(names, set, help)->check(on_or_off()));
}

Command Command::command(const std::string& name, const std::string& about) {
  return Command(*app_->add_subcommand(name, about));
}

Option Command::prints_config(const std::string& help) {
  return Option(*app_->add_flag(kPrintConfig, help));
}

void Command::footer(const std::string& text) { app_->footer(text); }
void Command::takes_anything() { app_->allow_extras(); }
void Command::action(std::function<void()> work) {
  app_->callback([app = app_, work = std::move(work)] {
    if (!app->get_subcommands().empty()) return;
    refuse_words_in_front(*app);
    const CLI::Option* const prints = app->get_option_no_throw(kPrintConfig);
    if (prints && prints->count() > 0)
      print_config(*app);
    else
      work();
  });
}
std::string Command::name() const { return app_->get_name(); }
std::vector<std::string> Command::long_options() const { return long_options_of(*app_); }

bool Command::is_given(const std::string& option) const {
  return app_->get_option("--" + option)->count() > 0;
}

void Command::set(const std::string& option, const std::vector<std::string>& values) {
  CLI::Option* const found = app_->get_option("--" + option);
  const bool is_flag = found->get_items_expected_max() == 0;
  try {
    for (const std::string& value : values)
      found->add_result(is_flag ? found->get_flag_value(option, value) : value);
    found->run_callback();
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
}

Program::Program(const std::string& name, const std::string& about, const std::string& version)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->set_version_flag("--version", name + " " + version);
  app_->require_subcommand(0, 1);
}

Program::~Program() = default;

Command Program::command(const std::string& name, const std::string& about) {
  return Command(*app_->add_subcommand(name, about));
}

void Program::footer(const std::string& text) { app_->footer(text); }

void Program::add_help() {
  CLI::App* const command = app_->add_subcommand("help", "Explain a command and its options");
  const auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *names, "One of the commands [all], and a command within it");
  command->footer("Examples:\n  attacca help run\n  attacca help bench serve");
  command->callback([this, names] {
    if (names->empty()) {
      fmt::print("{}", app_->get_formatter()->make_help(app_.get(), app_->get_name(),
                                                        CLI::AppFormatMode::Normal));
      return;
    }
    const CLI::App* about = app_.get();
    std::string before;  // the commands around it
    for (const std::string& name : *names) {
      const CLI::App* const outer = about;
      before += (before.empty() ? "" : " ") + outer->get_name();
      for (const CLI::App* inner : outer->get_subcommands({}))
        if (inner->get_name() == name) about = inner;
      if (about == outer) throw UsageError(no_command(*outer, name));
    }
    fmt::print("{}", about->help(before));
  });
}

/// CLI11's errors in words of our own.
int Program::parse(const std::vector<std::string>& words) {
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // it takes the last first
  } catch (const CLI::Success& asked) {                                   // --help and --version
    if (!chosen_command(*app_) && !app_->remaining().empty())
      throw UsageError(unexpected_word(*app_));
    return app_->exit(asked);
  } catch (const CLI::ExtrasError&) {
    throw UsageError(unexpected_word(*app_));
  } catch (const CLI::RequiredError&) {
    throw UsageError(missing_options(*app_));
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(missing_value(*app_, error.what()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  } catch (const BadArgument& error) {
    const CLI::App* const command = chosen_command(*app_);
    throw BadArgument(in_words_of_options(
        command ? long_options_of(*command) : std::vector<std::string>(), error.what()));
  }
  if (app_->get_subcommands().empty()) std::fputs(app_->help().c_str(), stdout);
  return 0;
}

int Program::run(int argc, const char* const* argv) {
  add_help();
  try {
    return parse(words_of(argc, argv));
  } catch (const ExitStatus& chosen) {
    return chosen.status;
  } catch (const Interrupted& interrupted) {
    end_by(interrupted);
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}: {}\nSee {}.\n", app_->get_name(), error.what(), help_of(*app_));
    return kWrongUsage;
  }
}

}  // namespace attacca::tool
