// command_line.hpp: the program's commands and their options. CLI11 parses them, and only
// command_line.cpp includes it: its header costs g++ 7 s in each file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attacca::tool {

/// Wrong usage, told to the user with the help to read. The exit status is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown by a command that has said what there is to say.
struct ExitStatus {
  int status;
};

/// What follows an option; values.hpp makes them.
struct Value {
  std::string type;                              // in the help: TEXT, UINT
  std::function<void(const std::string&)> read;  // stores it, or throws UsageError
  bool may_repeat = false;                       // the option may be given again
  bool is_list = false;                          // also A,B,C
};

/// An option of a command. Borrowed from the program.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  Option& required();
  Option& group(const std::string& heading);
  Option& shows_default(const std::string& text);
  /// Its value may be left out. Then nothing is read, and `is_bare` is true.
  Option& may_be_bare();
  bool is_given() const;
  bool is_bare() const;

 private:
  CLI::Option* option_;
};

/// A command. Borrowed from the program.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  /// `names`: "-m,--model", or MODEL for a word that stands alone.
  Option option(const std::string& names, const Value& value, const std::string& help);
  /// Words that stand alone, any number of them.
  Option words(const std::string& name, std::vector<std::string>& values, const std::string& help);
  /// Also takes on and off: --json=off.
  Option flag(const std::string& names, bool& value, const std::string& help);
  /// A flag that turns `value` off: --no-color.
  Option off_flag(const std::string& names, bool& value, const std::string& help);
  /// A command within this one: `attacca bench serve`.
  Command command(const std::string& name, const std::string& about);
  void footer(const std::string& text);
  /// Adds --print-config. With it the command does nothing but print its options as YAML: those
  /// that are given, from wherever, and as comments the defaults of the others.
  Option prints_config(const std::string& help);
  /// Lets any words and options follow, unread.
  void takes_anything();
  /// `work` runs once the options are read, unless a command within this one was named.
  void action(std::function<void()> work);

  std::string name() const;
  std::vector<std::string> long_options() const;
  bool is_given(const std::string& option) const;
  /// Gives an option its values, as the command line does. REQUIRES: one of `long_options`.
  void set(const std::string& option, const std::vector<std::string>& values);

 private:
  CLI::App* app_;
};

class Program {
 public:
  Program(const std::string& name, const std::string& about, const std::string& version);
  ~Program();
  Command command(const std::string& name, const std::string& about);
  void footer(const std::string& text);
  /// Adds the command help, runs what the words ask for and returns the exit status.
  int run(int argc, const char* const* argv);

 private:
  void add_help();
  int parse(const std::vector<std::string>& words);

  std::unique_ptr<CLI::App> app_;
};

}  // namespace attacca::tool
