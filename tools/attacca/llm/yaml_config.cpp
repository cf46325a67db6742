// yaml_config.cpp: reads a YAML file with yaml-cpp and gives its values to the command's options.
#include "llm/yaml_config.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <set>
#include <vector>

#include "input.hpp"
#include "nearest.hpp"

#if ATTACCA_WITH_YAML
#include <yaml-cpp/yaml.h>
#endif

namespace attacca::tool {

namespace {

#if ATTACCA_WITH_YAML

std::string place(const std::string& path, const YAML::Mark& mark) {
  return fmt::format("--config {}: line {}", path, mark.line + 1);
}

std::vector<std::string> values_of(const std::string& path, const std::string& key,
                                   const YAML::Node& value) {
  std::vector<std::string> values;
  if (value.IsSequence())
    for (const YAML::Node& entry : value)
      if (entry.IsScalar()) values.push_back(entry.Scalar());
  if (value.IsScalar()) values.push_back(value.Scalar());
  if (values.empty() || (value.IsSequence() && values.size() != value.size()))
    throw BadArgument(
        fmt::format("{}: {} is no value and no list of values; give it as on the "
                    "command line, or as [1, 2, 4]",
                    place(path, value.Mark()), key));
  return values;
}

/// `seen`: options that the file gave before.
void set_option(Command& command, const std::string& path, const YAML::Node& key,
                const YAML::Node& value, std::set<std::string>& seen) {
  const std::string text = key.IsScalar() ? key.Scalar() : "";
  std::string name = text;
  std::replace(name.begin(), name.end(), '_', '-');
  const std::vector<std::string> known = command.long_options();
  if (name == "config" || name == "print-config" || name == "help")
    throw BadArgument(fmt::format("{}: {} is for the command line only; leave it out",
                                  place(path, key.Mark()), text));
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw BadArgument(fmt::format("{}: '{}' is no option of {}; the nearest is {}",
                                  place(path, key.Mark()), text, command.name(),
                                  nearest(name, known)));
  if (!seen.insert(name).second)
    throw BadArgument(
        fmt::format("{}: {} is given twice; keep one", place(path, key.Mark()), text));
  if (command.is_given(name)) return;  // the command line goes first
  const std::vector<std::string> values = values_of(path, text, value);
  try {
    command.set(name, values);
  } catch (const UsageError& error) {
    throw BadArgument(fmt::format("{}: {}", place(path, value.Mark()), error.what()));
  }
}

void read_config(Command command, const std::string& path) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(read_text("--config", path));
  } catch (const YAML::ParserException& error) {
    throw BadArgument(fmt::format("{}: {}", place(path, error.mark), error.msg));
  }
  if (documents.size() > 1)
    throw BadArgument(
        fmt::format("{}: a second document begins; keep one", place(path, documents[1].Mark())));
  if (documents.empty() || documents.front().IsNull()) return;
  const YAML::Node& file = documents.front();
  if (!file.IsMap())
    throw BadArgument(
        fmt::format("--config {}: this is not a list of `option: value` lines", path));
  std::set<std::string> seen;
  for (const auto& entry : file) set_option(command, path, entry.first, entry.second, seen);
}

#else

void read_config(const Command&, const std::string& path) {
  throw BadArgument(fmt::format(
      "--config {}: built without yaml-cpp; install libyaml-cpp-dev and configure again", path));
}

#endif

}  // namespace

void add_config_option(Command& command, const std::string& group) {
  const Value file{"TEXT", [command](const std::string& path) { read_config(command, path); }};
  command
      .option("--config", file,
              "a YAML file with options by their long names, such as decode-sizes: [1, 2, 4]")
      .group(group);
  command.prints_config("print the options as such a file, and do nothing else").group(group);
}

}  // namespace attacca::tool
