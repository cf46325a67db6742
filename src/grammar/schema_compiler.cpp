// schema_compiler.cpp: writes each kind of JSON value as an automaton.
#include "grammar/schema_compiler.hpp"

#include <algorithm>

#include "core/in_quotes.hpp"
#include "grammar/disjoint.hpp"
#include "grammar/numbers.hpp"
#include "grammar/spelling.hpp"

namespace attacca::grammar {
namespace {

using nlohmann::ordered_json;

/// `mark`, and a space or none.
Node separator(Nfa& nfa, Node from, char mark) {
  const Node after = nfa.bytes(from, std::string_view(&mark, 1));
  const Node to = nfa.bytes(after, " ");
  nfa.jump(after, to);
  return to;
}

/// One value as it is.
Node write(Nfa& nfa, Node from, const ordered_json& value) {
  if (value.is_string()) return nfa.bytes(from, json_spelling(value.get_ref<const std::string&>()));
  if (!value.is_structured()) return nfa.bytes(from, value.dump());
  from = nfa.bytes(from, value.is_object() ? "{" : "[");
  bool is_first = true;
  for (const auto& [key, element] : value.items()) {
    if (!std::exchange(is_first, false)) from = separator(nfa, from, ',');
    if (value.is_object()) from = separator(nfa, nfa.bytes(from, json_spelling(key)), ':');
    from = write(nfa, from, element);
  }
  return nfa.bytes(from, value.is_object() ? "}" : "]");
}

/// How far counting must go: beyond, more is the same.
std::uint32_t last_count(const Counts& counts, std::size_t least) {
  return std::max({counts.least, counts.most.value_or(0), static_cast<std::uint32_t>(least)});
}

}  // namespace

Grammar SchemaCompiler::compile(const Place& root, const Frame& frame) {
  const RuleId start = rule_of({root});
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    try {
      define(next.rule, next.all);
    } catch (const TooLarge& error) {
      if (std::string_view(error.what()).starts_with("schema:")) throw;
      throw TooLarge(fmt::format("schema: {}: {}",
                                 in_quotes(next.all.empty() ? "#" : next.all.front().pointer),
                                 error.what()));
    }
  }
  try {
    return rules_.finish(rules_.framed(start, frame, budget_));
  } catch (const BadArgument& error) {
    throw BadArgument(fmt::format("schema: '#': {}", error.what()));
  }
}

RuleId SchemaCompiler::rule_of(const Conjunction& all) {
  std::vector<const ordered_json*> key;
  for (const Place& place : all) {
    const bool is_true = place.schema->is_boolean() && place.schema->get<bool>();
    if (!is_true) key.push_back(place.schema);
  }
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [at, is_new] = known_.try_emplace(std::move(key), 0);
  if (is_new) {
    at->second = rules_.reserve();
    pending_.push_back({at->second, all});
  }
  return at->second;
}

void SchemaCompiler::define(RuleId rule, const Conjunction& all) {
  const std::vector<Shape> shapes = reader_.shapes_of(all);
  check_one_of(shapes, reader_, budget_);
  Nfa nfa;
  for (const Shape& shape : shapes) add(nfa, shape);
  rules_.define(rule, minimized(determinized(nfa, budget_), budget_));
}

void SchemaCompiler::add(Nfa& nfa, const Shape& shape) {
  const auto add_rule = [&](RuleId rule) { nfa.jump(nfa.call(nfa.start(), rule), nfa.accept()); };
  if (shape.values) return add_rule(rules_.add(values(shape)));
  const auto word = [&](std::string_view text) {
    nfa.jump(nfa.bytes(nfa.start(), text), nfa.accept());
  };
  if (shape.types & kNull) word("null");
  if (shape.types & kBoolean) word("true"), word("false");
  if (shape.types & kNumber) add_rule(number(shape));
  if (shape.types & kString) add_rule(string(shape));
  if (shape.types & kArray) add_rule(rules_.add(array(shape)));
  if (shape.types & kObject) add_rule(rules_.add(object(shape)));
}

Dfa SchemaCompiler::values(const Shape& shape) {
  Nfa nfa;
  const Dfa codes = string_codes(shape, budget_);
  for (const ordered_json& value : *shape.values) {
    if (value.is_structured() && shape.demands_of_containers())
      refuse(shape.values_place, shape.values_place.schema->contains("const") ? "const" : "enum",
             "arrays and objects are not supported beside keywords that restrict them");
    if (holds(shape, value, codes)) nfa.jump(write(nfa, nfa.start(), value), nfa.accept());
  }
  return minimized(determinized(nfa, budget_), budget_);
}

template <class Make>
RuleId SchemaCompiler::named(const std::string& name, const Make& make) {
  if (const auto known = named_.find(name); known != named_.end()) return known->second;
  const RuleId rule = rules_.add(make());
  named_.emplace(name, rule);
  return rule;
}

RuleId SchemaCompiler::number(const Shape& shape) {
  NumberLimits limits = shape.number;
  limits.is_integer = !(shape.types & kFraction);
  const auto text = [](const std::optional<Bound>& bound) {
    if (!bound) return std::string();
    return fmt::format("{}{}.{}{}", bound->value.is_negative ? "-" : "", bound->value.whole,
                       bound->value.fraction, bound->is_exclusive ? "x" : "");
  };
  return named(fmt::format("number {} {} {} {}", limits.is_integer, text(limits.least),
                           text(limits.most), limits.divisor),
               [&] { return number_automaton(limits, budget_); });
}

RuleId SchemaCompiler::string(const Shape& shape) {
  if (!shape.demands_of_strings()) return named("string", [&] { return any_string(budget_); });
  std::string name = fmt::format("string {} {}", shape.length.least,
                                 shape.length.most ? fmt::format("{}", *shape.length.most) : "");
  if (shape.patterns.empty() && shape.formats.empty()) {
    return named(name, [&] {
      // A call for each character, so that a length costs one node and not the nodes of a
      // character.
      const RuleId character = named("character", [&] { return any_character(budget_); });
      Nfa nfa;
      Node node = nfa.bytes(nfa.start(), "\"");
      const std::uint32_t last = last_count(shape.length, 0);
      for (std::uint32_t count = 0;; ++count) {
        if (shape.length.has(count)) nfa.edge(node, '"', '"', nfa.accept());
        if (count == last) break;
        node = nfa.call(node, character);
      }
      if (!shape.length.most) nfa.edge(node, kFirstCall + character, kFirstCall + character, node);
      return determinized(nfa, budget_);
    });
  }
  for (const Shape::Pattern& pattern : shape.patterns) name += fmt::format("\n/{}/", pattern.text);
  for (const std::string& pattern : shape.formats) name += fmt::format("\n|{}|", pattern);
  return named(name, [&] { return json_automaton(string_codes(shape, budget_), budget_); });
}

RuleId SchemaCompiler::other_keys(const std::vector<std::string>& names) {
  rules_.set_free_keys();
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  std::string name = "keys";
  for (const std::string& one : sorted) name += fmt::format("\n{} {}", one.size(), one);
  return named(name, [&] { return json_automaton(every_text_but(sorted, budget_), budget_); });
}

Dfa SchemaCompiler::object(const Shape& shape) {
  const std::vector<std::string> names = shape.names();
  const std::uint32_t last = last_count(shape.properties, 1);
  Nfa nfa;
  // at[count]: so many keys are written, and the next is the one that is looked at, or a later one.
  std::vector<Node> at(last + 1), after(last + 1);
  const auto add_row = [&](std::vector<Node>& row) {
    for (Node& node : row) node = nfa.add();
  };
  const auto counted = [&](std::uint32_t count) -> std::optional<std::uint32_t> {
    if (shape.properties.most && count >= *shape.properties.most) return std::nullopt;
    return std::min(count + 1, last);
  };
  add_row(at);
  nfa.jump(nfa.bytes(nfa.start(), "{"), at[0]);
  for (const std::string& name : names) {
    add_row(after);
    const RuleId value = rule_of(shape.value_of(name));
    const std::string key = json_spelling(name);
    const bool is_required = shape.requires_key(name);
    for (std::uint32_t count = 0; count <= last; ++count) {
      if (!is_required) nfa.jump(at[count], after[count]);
      const auto next = counted(count);
      if (!next) continue;
      const Node begin = count == 0 ? at[count] : separator(nfa, at[count], ',');
      nfa.jump(nfa.call(separator(nfa, nfa.bytes(begin, key), ':'), value), after[*next]);
    }
    std::swap(at, after);
  }
  const bool has_more = shape.allows_more_keys() && shape.properties.most.value_or(1) > 0;
  if (has_more) {
    const RuleId key = other_keys(names), value = rule_of(shape.value_of_more_keys());
    for (std::uint32_t count = 0; count <= last; ++count) {
      const auto next = counted(count);
      if (!next) continue;
      const Node begin = count == 0 ? at[count] : separator(nfa, at[count], ',');
      nfa.jump(nfa.call(separator(nfa, nfa.call(begin, key), ':'), value), at[*next]);
    }
  }
  for (std::uint32_t count = shape.properties.least; count <= last; ++count)
    nfa.edge(at[count], '}', '}', nfa.accept());
  return minimized(determinized(nfa, budget_), budget_);
}

Dfa SchemaCompiler::array(const Shape& shape) {
  const std::size_t prefix = shape.prefix_size();
  const bool has_more = shape.allows_more_items();
  const std::uint32_t last = last_count(shape.items, std::max<std::size_t>(prefix, 1));
  Nfa nfa;
  Node node = nfa.bytes(nfa.start(), "[");
  for (std::uint32_t count = 0;; ++count) {
    if (count >= shape.items.least) nfa.edge(node, ']', ']', nfa.accept());
    if (shape.items.most && count >= *shape.items.most) break;
    if (count >= prefix && !has_more) break;
    const RuleId value = rule_of(shape.item(count));
    const Node begin = count == 0 ? node : separator(nfa, node, ',');
    if (count == last) {
      nfa.jump(nfa.call(begin, value), node);
      break;
    }
    node = nfa.call(begin, value);
  }
  return minimized(determinized(nfa, budget_), budget_);
}

}  // namespace attacca::grammar
