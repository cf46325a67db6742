// schema_reader.cpp: one function per group of keywords, each changing a shape; $ref, allOf, anyOf
// and oneOf change lists of shapes.
#include "grammar/schema_reader.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/in_quotes.hpp"
#include "grammar/string_formats.hpp"

namespace attacca::grammar {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 17> kRefused{"not",
                                                    "if",
                                                    "then",
                                                    "else",
                                                    "dependencies",
                                                    "contains",
                                                    "minContains",
                                                    "maxContains",
                                                    "propertyNames",
                                                    "$dynamicRef",
                                                    "$recursiveRef",
                                                    "additionalItems",
                                                    "dependentSchemas",
                                                    "dependentRequired",
                                                    "unevaluatedProperties",
                                                    "unevaluatedItems",
                                                    "patternProperties"};

void refuse_unsupported(const Place& place) {
  for (const std::string_view keyword : kRefused)
    if (place.schema->contains(keyword)) refuse(place, keyword, "it is not supported");
  const auto unique = place.schema->find("uniqueItems");
  if (unique != place.schema->end() && *unique != false)
    refuse(place, "uniqueItems", "it is not supported; false is");
}

const ordered_json* find(const Place& place, std::string_view keyword) {
  const auto found = place.schema->find(std::string(keyword));
  return found == place.schema->end() ? nullptr : &*found;
}

const ordered_json& require_list(const Place& place, std::string_view keyword) {
  const ordered_json& list = *find(place, keyword);
  if (!list.is_array() || list.empty())
    refuse(place, keyword, "a list with at least one element is expected");
  return list;
}

unsigned type_named(const Place& place, const ordered_json& name) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 7> kTypes{{{"null", kNull},
                                                                         {"boolean", kBoolean},
                                                                         {"integer", kInteger},
                                                                         {"number", kNumber},
                                                                         {"string", kString},
                                                                         {"array", kArray},
                                                                         {"object", kObject}}};
  if (name.is_string())
    for (const auto& [known, type] : kTypes)
      if (name.get_ref<const std::string&>() == known) return type;
  refuse(place, "type", "{} is no type", in_quotes(name.dump()));
}

void read_type(const Place& place, Shape& shape) {
  const ordered_json* type = find(place, "type");
  if (!type) return;
  unsigned types = 0;
  if (type->is_array())
    for (const ordered_json& name : require_list(place, "type")) types |= type_named(place, name);
  else
    types = type_named(place, *type);
  shape.types &= types;
}

void read_values(const Place& place, Shape& shape, Budget& budget) {
  const auto keep = [&](const std::vector<ordered_json>& values) {
    budget.spend(values.size() * (shape.values ? shape.values->size() : values.size()) / 4);
    if (!shape.values) {
      shape.values.emplace();
      for (const ordered_json& value : values)
        if (std::none_of(shape.values->begin(), shape.values->end(),
                         [&](const ordered_json& one) { return are_equal(one, value); }))
          shape.values->push_back(value);
      return;
    }
    std::erase_if(*shape.values, [&](const ordered_json& value) {
      return std::none_of(values.begin(), values.end(),
                          [&](const ordered_json& other) { return are_equal(value, other); });
    });
  };
  if (find(place, "const") || find(place, "enum")) shape.values_place = place;
  if (const ordered_json* value = find(place, "const")) keep({*value});
  if (find(place, "enum")) {
    const ordered_json& list = require_list(place, "enum");
    if (list.size() > kMostEnumValues)
      refuse(place, "enum", "{} values; at most {}", list.size(), kMostEnumValues);
    keep({list.begin(), list.end()});
  }
}

void read_bounds(const Place& place, NumberLimits& limits) {
  const auto tighten = [&](const char* keyword, std::optional<Bound>& bound, bool is_lower,
                           bool is_exclusive) {
    const ordered_json* number = find(place, keyword);
    if (!number) return;
    if (!number->is_number()) refuse(place, keyword, "a number is expected");
    const Bound stated{decimal_of(*number), is_exclusive};
    if (bound) {
      const auto relation = compare(stated.value, bound->value);
      const bool is_tighter =
          relation == 0 ? is_exclusive : (is_lower ? relation > 0 : relation < 0);
      if (!is_tighter) return;
    }
    bound = stated;
  };
  tighten("minimum", limits.least, true, false);
  tighten("exclusiveMinimum", limits.least, true, true);
  tighten("maximum", limits.most, false, false);
  tighten("exclusiveMaximum", limits.most, false, true);
}

void read_divisor(const Place& place, Shape& shape) {
  const ordered_json* number = find(place, "multipleOf");
  if (!number) return;
  if (!number->is_number() || *number <= 0)
    refuse(place, "multipleOf", "a positive number is expected");
  const Decimal value = decimal_of(*number);
  const auto refuse_value = [&] {
    refuse(place, "multipleOf", "{} is not supported; whole numbers up to {} are",
           in_quotes(number->dump()), kMostDivisor);
  };
  if (!value.is_integer() || value.whole.size() > 9) refuse_value();
  const auto divisor = static_cast<std::uint32_t>(std::stoul(value.whole));
  const std::uint64_t both = std::lcm<std::uint64_t>(shape.number.divisor, divisor);
  if (both > kMostDivisor) refuse_value();
  shape.number.divisor = static_cast<std::uint32_t>(both);
  shape.types &= ~unsigned{kFraction};
}

void read_counts(const Place& place, const char* least, const char* most, Counts& counts) {
  const auto count = [&](const char* keyword) -> std::optional<std::uint32_t> {
    const ordered_json* number = find(place, keyword);
    if (!number) return std::nullopt;
    if (!number->is_number() || *number < 0 || !decimal_of(*number).is_integer())
      refuse(place, keyword, "a whole number from 0 on is expected");
    if (*number > kMostLength)
      refuse(place, keyword, "{} is more than {}", in_quotes(number->dump()), kMostLength);
    return number->get<std::uint32_t>();
  };
  if (const auto stated = count(least)) counts.least = std::max(counts.least, *stated);
  if (const auto stated = count(most))
    counts.most = counts.most ? std::min(*counts.most, *stated) : *stated;
}

void read_strings(const Place& place, Shape& shape) {
  read_counts(place, "minLength", "maxLength", shape.length);
  if (const ordered_json* pattern = find(place, "pattern")) {
    if (!pattern->is_string()) refuse(place, "pattern", "a string is expected");
    shape.patterns.push_back({pattern->get<std::string>(), place});
  }
  if (const ordered_json* format = find(place, "format")) {
    if (!format->is_string()) refuse(place, "format", "a string is expected");
    const auto& name = format->get_ref<const std::string&>();
    if (const std::string* pattern = format_pattern(name))
      shape.formats.emplace_back(*pattern);
    else if (is_standard_format(name))
      refuse(place, "format", "{} is not supported", in_quotes(name));
  }
}

void read_object(const Place& place, Shape& shape, Budget& budget) {
  read_counts(place, "minProperties", "maxProperties", shape.properties);
  ObjectPart part;
  if (const ordered_json* properties = find(place, "properties")) {
    if (!properties->is_object()) refuse(place, "properties", "an object is expected");
    budget.spend(properties->size() * 4);
    const Place list = place.at("properties");
    for (const auto& [name, schema] : properties->items())
      part.properties.emplace_back(name, list.at(name, schema));
  }
  if (find(place, "additionalProperties")) part.additional = place.at("additionalProperties");
  if (!part.properties.empty() || part.additional) shape.objects.push_back(std::move(part));
  if (const ordered_json* required = find(place, "required")) {
    if (!required->is_array()) refuse(place, "required", "a list of names is expected");
    if (required->size() > kMostKeys)
      refuse(place, "required", "{} names; at most {}", required->size(), kMostKeys);
    budget.spend(required->size() * (required->size() + shape.required.size()) / 8);
    for (const ordered_json& name : *required) {
      if (!name.is_string()) refuse(place, "required", "a list of names is expected");
      if (!shape.requires_key(name.get_ref<const std::string&>())) shape.required.push_back(name);
    }
  }
}

void read_array(const Place& place, Shape& shape) {
  read_counts(place, "minItems", "maxItems", shape.items);
  ArrayPart part;
  if (find(place, "prefixItems")) {
    const std::size_t size = require_list(place, "prefixItems").size();
    for (std::size_t index = 0; index < size; ++index)
      part.prefix.push_back(place.at("prefixItems", index));
  }
  if (const ordered_json* items = find(place, "items")) {
    if (items->is_array())
      refuse(place, "items", "a list is not supported; name the first items with 'prefixItems'");
    part.items = place.at("items");
  }
  if (!part.prefix.empty() || part.items) shape.arrays.push_back(std::move(part));
}

}  // namespace

std::vector<Shape> SchemaReader::shapes_of(const Conjunction& all) {
  Shapes shapes(1);
  for (const Place& place : all) shapes = apply(place, std::move(shapes));
  return shapes;
}

SchemaReader::Shapes SchemaReader::apply(const Place& place, Shapes shapes) {
  if (place.schema->is_boolean()) return place.schema->get<bool>() ? std::move(shapes) : Shapes();
  if (!place.schema->is_object())
    throw BadArgument(fmt::format("schema: {} is no schema: an object, true or false is expected",
                                  in_quotes(place.pointer)));
  for (const Place& other : open_)
    if (other.schema == place.schema)
      refuse(open_.back(), "$ref", "{} refers to itself before any text is written",
             in_quotes(place.pointer));
  if (open_.size() >= kMostApplications)
    throw TooLarge(
        fmt::format("schema: {}: references, allOf, anyOf and oneOf are nested deeper "
                    "than {}",
                    in_quotes(place.pointer), kMostApplications));
  open_.push_back(place);
  refuse_unsupported(place);
  budget_.spend(shapes.size() * 50 + 50);
  for (Shape& shape : shapes) {
    read_type(place, shape);
    read_values(place, shape, budget_);
    read_bounds(place, shape.number);
    read_divisor(place, shape);
    read_strings(place, shape);
    read_object(place, shape, budget_);
    read_array(place, shape);
  }
  if (find(place, "$ref")) shapes = apply(document_.resolve(place), std::move(shapes));
  if (find(place, "allOf")) shapes = apply_all_of(place, std::move(shapes));
  for (const char* keyword : {"anyOf", "oneOf"})
    if (find(place, keyword)) shapes = apply_branches(place, keyword, shapes);
  open_.pop_back();
  return shapes;
}

SchemaReader::Shapes SchemaReader::apply_all_of(const Place& place, Shapes shapes) {
  const std::size_t size = require_list(place, "allOf").size();
  for (std::size_t index = 0; index < size; ++index)
    shapes = apply(place.at("allOf", index), std::move(shapes));
  return shapes;
}

SchemaReader::Shapes SchemaReader::apply_branches(const Place& place, std::string_view keyword,
                                                  const Shapes& shapes) {
  const ordered_json& list = require_list(place, keyword);
  Shapes result;
  for (std::size_t index = 0; index < list.size(); ++index) {
    const Place branch = place.at(keyword, index);
    for (Shape& shape : apply(branch, shapes)) {
      if (keyword == "oneOf") shape.branches.push_back({&list, index, place});
      result.push_back(std::move(shape));
      if (result.size() > kMostAlternatives)
        refuse(place, keyword, "more than {} alternatives", kMostAlternatives);
    }
  }
  return result;
}

}  // namespace attacca::grammar
