// shape.cpp: questions about what a conjunction of schemas demands.
#include "grammar/shape.hpp"

#include <algorithm>
#include <cmath>

#include "grammar/regex.hpp"
#include "grammar/spelling.hpp"
#include "text/utf8.hpp"

namespace attacca::grammar {
namespace {

using nlohmann::ordered_json;

bool is_false(const Place& place) {
  return place.schema->is_boolean() && !place.schema->get<bool>();
}

/// Strings of so many code points.
Dfa lengths(const Counts& counts) {
  Dfa dfa;
  const std::uint32_t size = (counts.most ? *counts.most : counts.least) + 1;
  const std::vector<Edge> all = every_text().edges[0];
  for (std::uint32_t node = 0; node < size; ++node) {
    const bool is_last = node + 1 == size;
    std::vector<Edge> edges = is_last && counts.most ? std::vector<Edge>() : all;
    for (Edge& edge : edges) edge.to = is_last ? node : node + 1;
    dfa.edges.push_back(std::move(edges));
    dfa.accepts.push_back(node >= counts.least);
  }
  return dfa;
}

bool accepts_text(const Dfa& codes, std::string_view text) {
  if (codes.size() == 0) return false;
  Node node = 0;
  while (!text.empty() && node != kNoNode) {
    std::size_t length = 0;
    node = next(codes, node, text::first_code(text, &length));
    text.remove_prefix(length);
  }
  return node != kNoNode && codes.accepts[node];
}

}  // namespace

Type type_of(const ordered_json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  return decimal_of(value).is_integer() ? kInteger : kFraction;
}

const Place* ObjectPart::find(const std::string& name) const {
  for (const auto& [key, place] : properties)
    if (key == name) return &place;
  return nullptr;
}

std::vector<std::string> Shape::names() const {
  std::vector<std::string> result;
  std::vector<std::string> sorted;
  const auto add = [&](const std::string& name) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), name);
    if (at != sorted.end() && *at == name) return;
    sorted.insert(at, name);
    result.push_back(name);
  };
  for (const ObjectPart& part : objects)
    for (const auto& [name, place] : part.properties) add(name);
  for (const std::string& name : required) add(name);
  return result;
}

bool Shape::requires_key(const std::string& name) const {
  return std::find(required.begin(), required.end(), name) != required.end();
}

Conjunction Shape::value_of(const std::string& name) const {
  Conjunction all;
  for (const ObjectPart& part : objects) {
    if (const Place* place = part.find(name))
      all.push_back(*place);
    else if (part.additional)
      all.push_back(*part.additional);
  }
  return all;
}

bool Shape::allows_more_keys() const {
  bool is_stated = false, has_properties = false;
  for (const ObjectPart& part : objects) {
    if (part.additional && is_false(*part.additional)) return false;
    is_stated = is_stated || part.additional;
    has_properties = has_properties || !part.properties.empty();
  }
  return is_stated || !has_properties || properties.least > names().size();
}

Conjunction Shape::value_of_more_keys() const {
  Conjunction all;
  for (const ObjectPart& part : objects)
    if (part.additional) all.push_back(*part.additional);
  return all;
}

std::size_t Shape::prefix_size() const {
  std::size_t size = 0;
  for (const ArrayPart& part : arrays) size = std::max(size, part.prefix.size());
  return size;
}

Conjunction Shape::item(std::size_t index) const {
  Conjunction all;
  for (const ArrayPart& part : arrays) {
    if (index < part.prefix.size())
      all.push_back(part.prefix[index]);
    else if (part.items)
      all.push_back(*part.items);
  }
  return all;
}

bool Shape::allows_more_items() const {
  bool is_stated = false;
  for (const ArrayPart& part : arrays) {
    if (part.items && is_false(*part.items)) return false;
    is_stated = is_stated || part.items;
  }
  return is_stated || prefix_size() == 0 || items.least > prefix_size();
}

Dfa string_codes(const Shape& shape, Budget& budget) {
  Dfa codes = every_text();
  for (const Shape::Pattern& pattern : shape.patterns) {
    try {
      const Dfa found = regex_automaton(pattern.text, Match::anywhere, budget);
      codes = intersection(codes, found, budget);
    } catch (const BadArgument& error) {
      refuse(pattern.place, "pattern", "{}", error.what());
    }
  }
  for (const std::string& pattern : shape.formats)
    codes = intersection(codes, regex_automaton(pattern, Match::whole, budget), budget);
  if (!shape.length.is_free()) codes = intersection(codes, lengths(shape.length), budget);
  return minimized(std::move(codes), budget);
}

bool are_equal(const ordered_json& left, const ordered_json& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_number_float() == right.is_number_float()) return left == right;
    const ordered_json& real = left.is_number_float() ? left : right;
    if (const auto value = real.get<double>(); std::floor(value) != value) return false;
    return compare(decimal_of(left), decimal_of(right)) == 0;
  }
  if (left.is_array() && right.is_array())
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), are_equal);
  if (left.is_object() && right.is_object()) {
    if (left.size() != right.size()) return false;
    for (const auto& [key, value] : left.items()) {
      const auto found = right.find(key);
      if (found == right.end() || !are_equal(value, *found)) return false;
    }
    return true;
  }
  return left == right;
}

bool holds(const Shape& shape, const ordered_json& scalar, const Dfa& codes) {
  if (!(shape.types & type_of(scalar))) return false;
  if (shape.values && std::none_of(shape.values->begin(), shape.values->end(),
                                   [&](const auto& one) { return are_equal(one, scalar); }))
    return false;
  if (scalar.is_number()) return is_within(decimal_of(scalar), shape.number);
  return !scalar.is_string() || accepts_text(codes, scalar.get_ref<const std::string&>());
}

}  // namespace attacca::grammar
