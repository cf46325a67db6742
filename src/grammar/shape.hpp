// shape.hpp: what a conjunction of JSON schemas demands of a value, its alternatives multiplied
// out. schema_reader.hpp makes shapes, schema_compiler.hpp turns them into rules.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/numbers.hpp"
#include "grammar/schema_document.hpp"

namespace attacca::grammar {

enum Type : unsigned {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,   // numbers without a fraction
  kFraction = 8,  // other numbers; only together with kInteger
  kString = 16,
  kArray = 32,
  kObject = 64,
  kNumber = kInteger | kFraction,
  kEveryType = 127,
};

/// The type of a value; 1.0 is an integer.
Type type_of(const nlohmann::ordered_json& value);

/// A count between two bounds.
struct Counts {
  std::uint32_t least = 0;
  std::optional<std::uint32_t> most = {};

  bool is_free() const { return least == 0 && !most; }
  bool has(std::uint32_t count) const { return count >= least && (!most || count <= *most); }
  bool overlaps(const Counts& other) const {
    return !(most && *most < other.least) && !(other.most && *other.most < least);
  }
};

/// What one schema says of an object's keys, or of an array's items. The conjunction of several
/// schemas is not one of these: `additional` is about the keys that the same schema does not name.
struct ObjectPart {
  std::vector<std::pair<std::string, Place>> properties = {};
  std::optional<Place> additional = {};
  const Place* find(const std::string& name) const;
};
struct ArrayPart {
  std::vector<Place> prefix = {};
  std::optional<Place> items = {};
};

/// Several schemas that must hold at once.
using Conjunction = std::vector<Place>;

struct Shape {
  unsigned types = kEveryType;
  std::optional<std::vector<nlohmann::ordered_json>> values = {};  // of const and enum
  Place values_place = {};
  NumberLimits number = {};
  Counts length = {};
  struct Pattern {
    std::string text;
    Place place;  // of the schema that has it
  };
  std::vector<Pattern> patterns = {};     // found anywhere in the string
  std::vector<std::string> formats = {};  // expressions for the whole string
  std::vector<ObjectPart> objects = {};
  std::vector<std::string> required = {};  // in the order of the schema, each once
  Counts properties = {};
  std::vector<ArrayPart> arrays = {};
  Counts items = {};
  /// Which branch of which oneOf it comes from.
  struct Branch {
    const nlohmann::ordered_json* one_of = nullptr;
    std::size_t number = 0;
    Place place = {};
  };
  std::vector<Branch> branches = {};

  bool demands_of_strings() const {
    return !patterns.empty() || !formats.empty() || !length.is_free();
  }
  bool demands_of_containers() const {
    return !objects.empty() || !required.empty() || !properties.is_free() || !arrays.empty() ||
           !items.is_free();
  }

  /// The named keys in the order in which they are written, the required ones that no schema names
  /// last.
  std::vector<std::string> names() const;
  bool requires_key(const std::string& name) const;
  /// What the value of a key must be.
  Conjunction value_of(const std::string& name) const;
  /// Whether keys without a name may be written. Without `additionalProperties`, an object with
  /// named properties gets no others, unless it could not have enough.
  bool allows_more_keys() const;
  Conjunction value_of_more_keys() const;

  std::size_t prefix_size() const;
  Conjunction item(std::size_t index) const;
  /// The same for items after those of `prefixItems`.
  bool allows_more_items() const;
};

/// The code points of the strings of a shape.
Dfa string_codes(const Shape& shape, Budget& budget);

/// Whether a value that is neither an array nor an object satisfies the shape. `codes` is its
/// string_codes.
bool holds(const Shape& shape, const nlohmann::ordered_json& scalar, const Dfa& codes);

/// Equal as JSON schemas mean it: 1 is 1.0, and the order of keys does not matter.
bool are_equal(const nlohmann::ordered_json& left, const nlohmann::ordered_json& right);

}  // namespace attacca::grammar
