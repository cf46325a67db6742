// grammar.cpp: compiles schemas and regular expressions into grammars.
#include "grammar/grammar.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include "core/in_quotes.hpp"
#include "grammar/regex.hpp"
#include "grammar/schema_compiler.hpp"
#include "grammar/spelling.hpp"

namespace attacca::grammar {

Grammar Grammar::from_schema(std::string_view schema) {
  const SchemaDocument document(schema);
  return SchemaCompiler(document).compile(document.root());
}

Grammar Grammar::any_object() { return from_schema(R"({"type": "object"})"); }

Grammar Grammar::from_regex(std::string_view pattern) {
  Budget budget;
  RuleSet rules;
  try {
    const RuleId rule =
        rules.add(utf8_automaton(regex_automaton(pattern, Match::whole, budget), budget));
    return rules.finish(rule);
  } catch (const BadArgument& error) {
    const std::string_view message = error.what();
    if (message.starts_with("regular expression")) throw;
    throw BadArgument(fmt::format("regular expression {}: {}", in_quotes(pattern), message));
  }
}

}  // namespace attacca::grammar
