// grammar.cpp: compiles schemas and regular expressions into grammars.
#include "grammar/grammar.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include "core/in_quotes.hpp"
#include "grammar/regex.hpp"
#include "grammar/schema_compiler.hpp"
#include "grammar/spelling.hpp"

namespace attacca::grammar {

Grammar Grammar::from_schema(std::string_view schema, const Frame& frame) {
  const SchemaDocument document(schema);
  return SchemaCompiler(document).compile(document.root(), frame);
}

Grammar Grammar::any_object(const Frame& frame) {
  return from_schema(R"({"type": "object"})", frame);
}

Grammar Grammar::from_regex(std::string_view pattern, const Frame& frame) {
  Budget budget;
  RuleSet rules;
  try {
    const RuleId rule =
        rules.add(utf8_automaton(regex_automaton(pattern, Match::whole, budget), budget));
    return rules.finish(rules.framed(rule, frame, budget));
  } catch (const BadArgument& error) {
    const std::string_view message = error.what();
    if (message.starts_with("regular expression")) throw;
    throw BadArgument(fmt::format("regular expression {}: {}", in_quotes(pattern), message));
  }
}

}  // namespace attacca::grammar
