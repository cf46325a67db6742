// Tests of refusals: each names the keyword and its JSON pointer, and nothing takes long.
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include "grammar/cases.hpp"
#include "support/refusals.hpp"

namespace attacca::grammar {
namespace {

using namespace attacca::test;

struct Refusal {
  const char* schema;
  const char* keyword;
  const char* pointer;
  const char* words = "";
};

void expect_refused(const Refusal& one) {
  SCOPED_TRACE(one.schema);
  try {
    (void)Grammar::from_schema(one.schema);
    FAIL() << "not refused";
  } catch (const BadArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("keyword '" + std::string(one.keyword) + "'"), std::string::npos)
        << message;
    EXPECT_NE(message.find("'" + std::string(one.pointer) + "'"), std::string::npos) << message;
    EXPECT_NE(message.find(one.words), std::string::npos) << message;
  }
}

TEST(Refusal, of_a_keyword_names_it_and_its_pointer) {
  for (const Refusal& one : std::initializer_list<Refusal>{
           {R"({"not": {}})", "not", "#/not", "not supported"},
           {R"({"if": {}, "then": false})", "if", "#/if", "not supported"},
           {R"({"then": {}})", "then", "#/then"},
           {R"({"else": {}})", "else", "#/else"},
           {R"({"dependentRequired": {}})", "dependentRequired", "#/dependentRequired"},
           {R"({"dependentSchemas": {}})", "dependentSchemas", "#/dependentSchemas"},
           {R"({"dependencies": {}})", "dependencies", "#/dependencies"},
           {R"({"patternProperties": {"a": {}}})", "patternProperties", "#/patternProperties"},
           {R"({"propertyNames": {}})", "propertyNames", "#/propertyNames"},
           {R"({"unevaluatedProperties": false})", "unevaluatedProperties",
            "#/unevaluatedProperties"},
           {R"({"unevaluatedItems": false})", "unevaluatedItems", "#/unevaluatedItems"},
           {R"({"contains": {}})", "contains", "#/contains"},
           {R"({"minContains": 1})", "minContains", "#/minContains"},
           {R"({"maxContains": 1})", "maxContains", "#/maxContains"},
           {R"({"additionalItems": false})", "additionalItems", "#/additionalItems"},
           {R"({"uniqueItems": true})", "uniqueItems", "#/uniqueItems"},
           {R"({"$dynamicRef": "#a"})", "$dynamicRef", "#/$dynamicRef"},
           {R"({"properties": {"a": {"items": {"not": {}}}}})", "not", "#/properties/a/items/not"},
           {R"({"properties": {"a/b~c": {"not": {}}}})", "not", "#/properties/a~1b~0c/not"},
           {R"({"$defs": {"x": {"not": {}}}, "items": {"$ref": "#/$defs/x"}})", "not",
            "#/$defs/x/not"},
           {R"({"anyOf": [{}, {"allOf": [{"not": {}}]}]})", "not", "#/anyOf/1/allOf/0/not"},
           {R"({"prefixItems": [{}, {"not": {}}]})", "not", "#/prefixItems/1/not"},
           {R"({"format": "ipv6"})", "format", "#/format", "'ipv6' is not supported"},
           {R"({"multipleOf": 0.01})", "multipleOf", "#/multipleOf", "whole numbers up to 1000"},
           {R"({"multipleOf": 1001})", "multipleOf", "#/multipleOf", "whole numbers up to 1000"},
           {R"({"items": {"pattern": "(a)\\1"}})", "pattern", "#/items/pattern", "backreference"},
           {R"({"items": {"pattern": "a(?=b)c"}})", "pattern", "#/items/pattern", "lookahead"},
           {R"({"pattern": "(a|b)*a(a|b){30}"})", "pattern", "#/pattern", "too many states"},
           {R"({"items": [{}]})", "items", "#/items", "prefixItems"},
           {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "oneOf", "#/oneOf",
            "branches 0 and 1 may both hold"},
           {R"({"items": {"oneOf": [{"type": "null"}, {"maxLength": 3}]}})", "oneOf",
            "#/items/oneOf", "branches 0 and 1"},
           {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}},
                          {"type": "object", "properties": {"k": {"const": 2}}}]})",
            "oneOf", "#/oneOf", "required"},
           {R"({"enum": [[1]], "minItems": 1})", "enum", "#/enum", "beside keywords"}})
    expect_refused(one);
}

TEST(Refusal, of_a_value_names_the_keyword_and_its_pointer) {
  for (const Refusal& one : std::initializer_list<Refusal>{
           {R"({"type": "text"})", "type", "#/type", "no type"},
           {R"({"type": []})", "type", "#/type"},
           {R"({"type": 3})", "type", "#/type"},
           {R"({"enum": []})", "enum", "#/enum"},
           {R"({"enum": "a"})", "enum", "#/enum"},
           {R"({"anyOf": []})", "anyOf", "#/anyOf"},
           {R"({"allOf": {}})", "allOf", "#/allOf"},
           {R"({"oneOf": 1})", "oneOf", "#/oneOf"},
           {R"({"minimum": "1"})", "minimum", "#/minimum"},
           {R"({"exclusiveMaximum": true})", "exclusiveMaximum", "#/exclusiveMaximum"},
           {R"({"multipleOf": 0})", "multipleOf", "#/multipleOf"},
           {R"({"minLength": -1})", "minLength", "#/minLength"},
           {R"({"maxLength": 1.5})", "maxLength", "#/maxLength"},
           {R"({"maxLength": 16385})", "maxLength", "#/maxLength", "more than 16384"},
           {R"({"minItems": 1e9})", "minItems", "#/minItems", "more than 16384"},
           {R"({"pattern": 3})", "pattern", "#/pattern"},
           {R"({"format": 3})", "format", "#/format"},
           {R"({"properties": []})", "properties", "#/properties"},
           {R"({"required": "a"})", "required", "#/required"},
           {R"({"required": [1]})", "required", "#/required"},
           {R"({"$ref": 3})", "$ref", "#/$ref"},
           {R"({"$ref": "https://example.com/a"})", "$ref", "#/$ref", "not supported"},
           {R"({"$ref": "#anchor"})", "$ref", "#/$ref", "not supported"},
           {R"({"$ref": "#/$defs/none"})", "$ref", "#/$ref", "leads nowhere"},
           {R"({"$ref": "#"})", "$ref", "#/$ref", "refers to itself"},
           {R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
                "$ref": "#/$defs/a"})",
            "$ref", "#/$defs/b/$ref", "refers to itself"}})
    expect_refused(one);
}

TEST(Refusal, of_a_schema_that_nothing_satisfies_says_so) {
  for (const char* schema :
       {"false", R"({"type": "integer", "minimum": 5, "maximum": 4})",
        R"({"allOf": [{"type": "string"}, {"type": "null"}]})",
        R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
        R"({"type": "object", "required": ["a"], "additionalProperties": false})",
        R"({"type": "string", "pattern": "a^"})", R"({"enum": [1], "type": "string"})",
        R"({"type": "array", "items": false, "minItems": 1})",
        R"({"type": "string", "minLength": 3, "maxLength": 2})"})
    expect_bad([&] { (void)Grammar::from_schema(schema); }, "no text satisfies it");
}

TEST(Refusal, of_a_text_that_is_no_schema_says_where) {
  expect_bad([] { (void)Grammar::from_schema("{"); }, "schema: byte 2: not JSON");
  expect_bad([] { (void)Grammar::from_schema("3"); }, "'#' is no schema");
  expect_bad([] { (void)Grammar::from_schema(R"({"items": []})"); }, "prefixItems");
  expect_bad([] { (void)Grammar::from_schema(R"({"items": 3})"); }, "'#/items' is no schema");
  expect_bad([] { (void)Grammar::from_schema(R"({"type": "null", "type": "null"})"); }, "twice");
}

TEST(Limits, nesting_and_size_of_schemas_are_bounded) {
  std::string deep;
  for (int depth = 0; depth < 100; ++depth) deep += R"({"items":)";
  deep += "true" + std::string(100, '}');
  expect_bad([&] { (void)Grammar::from_schema(deep); }, "nested deeper than 64");
  expect_bad([] { (void)Grammar::from_schema(std::string(300'000, ' ') + "{}"); },
             "at most 262144");
  ordered_json wide{{"properties", ordered_json::object()}};
  for (int count = 0; count < 3000; ++count) wide["properties"][std::to_string(count)] = true;
  expect_bad([&] { (void)Grammar::from_schema(wide.dump()); }, "more than 2048 keys");
}

TEST(Limits, alternatives_do_not_multiply_without_end) {
  ordered_json two{{"anyOf", {{{"minimum", 1}}, {{"maximum", 5}}}}};
  ordered_json many{{"allOf", ordered_json::array()}};
  for (int count = 0; count < 12; ++count) many["allOf"].push_back(two);
  expect_bad([&] { (void)Grammar::from_schema(many.dump()); }, "more than 256 alternatives");
}

TEST(Limits, references_may_form_a_long_chain_but_not_without_text) {
  ordered_json schema{{"$defs", ordered_json::object()}, {"$ref", "#/$defs/0"}};
  for (int count = 0; count < 1000; ++count) {
    const std::string next = "#/$defs/" + std::to_string(count + 1);
    schema["$defs"][std::to_string(count)] = {{"items", {{"$ref", next}}}, {"type", "array"}};
  }
  schema["$defs"]["1000"] = {{"type", "null"}};
  (void)Grammar::from_schema(schema.dump());
  for (int count = 0; count < 1000; ++count)
    schema["$defs"][std::to_string(count)] = {{"$ref", "#/$defs/" + std::to_string(count + 1)}};
  expect_bad([&] { (void)Grammar::from_schema(schema.dump()); }, "nested deeper than 64");
}

TEST(Limits, large_schemas_within_the_limits_compile) {
  ordered_json schema{{"type", "object"}, {"properties", ordered_json::object()}};
  for (int count = 0; count < 300; ++count)
    schema["properties"]["property" + std::to_string(count)] = {{"type", "string"}};
  EXPECT_GT(Grammar::from_schema(schema.dump()).size(), 300u);
  EXPECT_GT(Grammar::from_schema(R"({"type": "string", "maxLength": 16384})").size(), 16384u);
  EXPECT_GT(Grammar::from_schema(R"({"type": "array", "maxItems": 16384})").size(), 16384u);
  ordered_json values{{"enum", ordered_json::array()}};
  for (int count = 0; count < 2000; ++count)
    values["enum"].push_back("value " + std::to_string(count));
  EXPECT_GT(Grammar::from_schema(values.dump()).size(), 5u);
}

TEST(Limits, costly_combinations_are_refused_in_time) {
  // Each would have millions of states.
  for (const char* schema :
       {R"({"pattern": "^(a|b)*a(a|b){12}$", "minLength": 1000})",
        R"({"pattern": "^\\p{L}{1,1000}$"})", R"({"pattern": "a.{1000}b", "maxLength": 10000})",
        R"({"type": "object", "minProperties": 16384, "properties":
            {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}}})"}) {
    SCOPED_TRACE(schema);
    EXPECT_THROW((void)Grammar::from_schema(schema), BadArgument);
  }
}

}  // namespace
}  // namespace attacca::grammar
