// `attacca tokenize`: text to tokens and back, with the tokenizer of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <attacca/error.hpp>

#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "input.hpp"
#include "json.hpp"
#include "llm/models.hpp"
#include "text/tokenizer/open.hpp"
#include "values.hpp"

namespace attacca::tool {
namespace {

using Ids = std::vector<std::int32_t>;

struct Request {
  std::string model;
  std::string text;
  std::string file;
  bool is_json = false;
  bool decodes = false;
  bool has_special = true;
  bool adds_special = false;
};

std::string input_of(const Request& request) {
  if (!request.file.empty()) return read_text("--file", request.file);
  return request.text == "-" ? read_text("text", "-") : request.text;
}

/// Reads numbers out of "1 2", "1,2" or "[1, 2]".
Ids ids_of(const std::string& text, const text::Tokenizer& tokenizer) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  Ids ids;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBetween, at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    std::int32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size())
      throw BadArgument(fmt::format("'{}' is not a token id; --decode takes numbers", word));
    if (id < 0 || id >= tokenizer.size())
      throw BadArgument(fmt::format("{} is not a token id; the tokenizer has ids 0 to {}", id,
                                    tokenizer.size() - 1));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

void decode(const Request& request, const text::Tokenizer& tokenizer) {
  const std::string text =
      tokenizer.decode(ids_of(input_of(request), tokenizer), !request.has_special);
  if (request.is_json)
    fmt::print("{}\n", Json({{"text", text}}).text());
  else
    fmt::print("{}\n", text);
}

void encode(const Request& request, const text::Tokenizer& tokenizer) {
  const std::string text = input_of(request);
  const Ids ids = tokenizer.encode(
      text, {.add_special = request.adds_special, .parse_special = request.has_special});
  if (!request.is_json) {
    fmt::print("{}\n", fmt::join(ids, " "));
    return;
  }
  Json::List pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  fmt::print("{}\n", Json({{"ids", ids}, {"pieces", pieces}}).text());
}

}  // namespace

void add_tokenize(Program& program) {
  Command command = program.command("tokenize", "Text to tokens and back");
  command.footer(
      "Examples:\n"
      "  attacca tokenize model.gguf 'Hello, world!'\n"
      "  attacca tokenize folder/with/tokenizer.json --file notes.txt --json\n"
      "  echo Hello | attacca tokenize model.gguf -\n"
      "  attacca tokenize model.gguf --decode '9707 11 1879 0'");
  const auto request = std::make_shared<Request>();
  command
      .option("model", file_name(request->model),
              "A GGUF file, a tokenizer.json or a folder that has one")
      .required();
  const Option given = command.option("text", text(request->text),
                                      "The text, with --decode the ids; - is standard input");
  const Option file = command.option("--file", file_name(request->file),
                                     "Read the text from here; - is standard input");
  command.flag("--json", request->is_json, "Print JSON: ids and pieces; the text of --decode");
  command.flag("--decode", request->decodes, "From ids to text");
  const Option special = command.flag(
      "--special", request->has_special,
      "Special tokens count as such, in the text and in that of --decode, which is the default");
  const Option no_special =
      command.off_flag("--no-special", request->has_special,
                       "Special tokens are read as plain text, or left out with --decode");
  command.flag("--add-special", request->adds_special,
               "Add the tokens that the tokenizer puts around a text, such as its first");
  command.action([request, given, file, special, no_special] {
    if (special.is_given() && no_special.is_given())
      throw UsageError("give --special or --no-special, not both");
    if (given.is_given() == file.is_given())
      throw UsageError("give a text or --file with its name, one of them");
    if (request->decodes && request->adds_special)
      throw UsageError("--add-special does nothing with --decode; leave one out");
    const text::Tokenizer tokenizer = open_tokenizer(request->model);
    (request->decodes ? decode : encode)(*request, tokenizer);
  });
}

}  // namespace attacca::tool
