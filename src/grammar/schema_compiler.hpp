// schema_compiler.hpp: turns the shapes of a JSON schema into rules. It decides how JSON is
// written: properties in the order of the schema, no white space but at most one space after each
// colon and comma.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "grammar/rule_set.hpp"
#include "grammar/schema_reader.hpp"

namespace attacca::grammar {

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const SchemaDocument& document) : reader_(document, budget_) {}

  Grammar compile(const Place& root, const Frame& frame);

 private:
  /// The rule of a conjunction. It is defined later, so schemas may contain themselves.
  RuleId rule_of(const Conjunction& all);
  void define(RuleId rule, const Conjunction& all);
  /// Adds a shape's texts from the start to the end of `nfa`.
  void add(Nfa& nfa, const Shape& shape);

  Dfa values(const Shape& shape);
  RuleId string(const Shape& shape);
  RuleId number(const Shape& shape);
  Dfa object(const Shape& shape);
  Dfa array(const Shape& shape);
  /// Keys other than `names`.
  RuleId other_keys(const std::vector<std::string>& names);
  /// The rule of that name, made if it is not there yet.
  template <class Make>
  RuleId named(const std::string& name, const Make& make);

  Budget budget_;
  SchemaReader reader_;
  RuleSet rules_;
  std::map<std::vector<const nlohmann::ordered_json*>, RuleId> known_;
  std::map<std::string, RuleId> named_;
  struct Pending {
    RuleId rule;
    Conjunction all;
  };
  std::deque<Pending> pending_;
};

}  // namespace attacca::grammar
