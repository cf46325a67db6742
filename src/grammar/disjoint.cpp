// disjoint.cpp: looks for a reason why what is written for one shape cannot satisfy another: other
// types, other constants, bounds, patterns, or a key that one demands and the other excludes.
#include "grammar/disjoint.hpp"

#include <algorithm>

namespace attacca::grammar {
namespace {

using nlohmann::ordered_json;

bool lies_below(const std::optional<Bound>& most, const std::optional<Bound>& least) {
  if (!most || !least) return false;
  const auto relation = compare(most->value, least->value);
  return relation < 0 || (relation == 0 && (most->is_exclusive || least->is_exclusive));
}

class Prover {
 public:
  Prover(SchemaReader& reader, Budget& budget) : reader_(reader), budget_(budget) {}

  /// Whether nothing that is written for `written` satisfies `other`.
  bool excludes(const Shape& written, const Shape& other, int depth) {
    budget_.spend(100);
    const unsigned types = written.types & other.types;
    if (types == 0) return true;
    if (written.values || other.values) return values_differ(written, other);
    if (types & (kNull | kBoolean)) return false;
    if (types & kNumber && !lies_below(written.number.most, other.number.least) &&
        !lies_below(other.number.most, written.number.least))
      return false;
    if (types & kString && !strings_differ(written, other)) return false;
    if (types & kArray && written.items.overlaps(other.items)) return false;
    return !(types & kObject) || objects_differ(written, other, depth);
  }

 private:
  bool values_differ(const Shape& written, const Shape& other) {
    const Shape& listed = written.values ? written : other;
    const Shape& tested = written.values ? other : written;
    const bool has_containers =
        std::any_of(listed.values->begin(), listed.values->end(),
                    [](const ordered_json& value) { return value.is_structured(); });
    if (has_containers && !tested.values && tested.types & (kArray | kObject)) return false;
    const Dfa codes = string_codes(tested, budget_);
    return std::none_of(listed.values->begin(), listed.values->end(),
                        [&](const ordered_json& value) { return holds(tested, value, codes); });
  }

  bool strings_differ(const Shape& written, const Shape& other) {
    if (!written.length.overlaps(other.length)) return true;
    if (written.patterns.empty() && written.formats.empty() && other.patterns.empty() &&
        other.formats.empty())
      return false;
    return intersection(string_codes(written, budget_), string_codes(other, budget_), budget_)
        .is_empty();
  }

  bool objects_differ(const Shape& written, const Shape& other, int depth) {
    if (!written.properties.overlaps(other.properties)) return true;
    const std::vector<std::string> names = written.names();
    for (const std::string& name : other.required) {
      const bool is_possible =
          written.allows_more_keys() || std::find(names.begin(), names.end(), name) != names.end();
      if (!is_possible || conjunctions_differ(written.value_of(name), other.value_of(name), depth))
        return true;
    }
    return std::any_of(
        written.required.begin(), written.required.end(), [&](const std::string& name) {
          return conjunctions_differ(written.value_of(name), other.value_of(name), depth);
        });
  }

  bool conjunctions_differ(const Conjunction& written, const Conjunction& other, int depth) {
    constexpr int kMostDepth = 3;
    if (depth >= kMostDepth) return false;
    const std::vector<Shape> left = reader_.shapes_of(written), right = reader_.shapes_of(other);
    for (const Shape& one : left)
      for (const Shape& two : right)
        if (!excludes(one, two, depth + 1)) return false;
    return true;
  }

  SchemaReader& reader_;
  Budget& budget_;
};

}  // namespace

void check_one_of(const std::vector<Shape>& shapes, SchemaReader& reader, Budget& budget) {
  Prover prover(reader, budget);
  for (const Shape& left : shapes) {
    for (const Shape& right : shapes) {
      for (const Shape::Branch& one : left.branches) {
        for (const Shape::Branch& two : right.branches) {
          if (one.one_of != two.one_of || one.number == two.number) continue;
          if (!prover.excludes(left, right, 0))
            refuse(one.place, "oneOf",
                   "branches {} and {} may both hold; use anyOf, or give each a required property "
                   "with its own const",
                   one.number, two.number);
        }
      }
    }
  }
}

}  // namespace attacca::grammar
