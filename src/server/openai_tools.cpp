// openai_tools.cpp: functions that a reply may call, and the grammar of a reply that must.
#include "server/openai_tools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/in_quotes.hpp"
#include "formats/json.hpp"

namespace attacca::server {

namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

bool is_object(const std::string& text) {
  try {
    RequestBody{text};
    return true;
  } catch (const RequestError&) {
    return false;
  }
}

/// The names of the functions in `tools`.
std::vector<std::string> tool_names(Fields& fields) {
  const json& list = *fields.find("tools");
  if (!list.is_array()) fields.refuse("tools", "a list of functions");
  std::vector<std::string> names;
  for (std::size_t at = 0; at < list.size(); ++at) {
    Fields tool(list[at], fmt::format("tools[{}]", at));
    if (tool.text("type") != "function") tool.refuse("type", "the type function");
    const json* described = tool.find("function");
    if (!described) tool.refuse("function", "an object with a name");
    Fields function(*described, tool.place("function"));
    names.push_back(function.text("name").value_or(""));
    if (names.back().empty()) function.refuse("name", "a name");
    const json* parameters = function.find("parameters");
    if (parameters &&
        (!parameters->is_object() || parameters->value("type", json("object")) != "object"))
      throw RequestError(
          400,
          fmt::format("'{}' of the tool {} are {}; a JSON schema of the type object is expected",
                      function.place("parameters"), in_quotes(names.back()),
                      formats::json_text(*parameters)),
          function.place("parameters"));
  }
  return names;
}

/// Moves references within a schema that becomes a part of another one.
void move_references(Json& schema, const std::string& to) {
  for (auto& [key, value] : schema.items()) {
    if (value.is_structured())
      move_references(value, to);
    else if (key == "$ref" && value.is_string() && value.get_ref<const std::string&>()[0] == '#')
      value = to + value.get<std::string>().substr(1);
  }
}

/// One call of a tool, of the one that is named if there is a name. Fills `places`.
llm::Grammar call_grammar(const Json& tools, const std::string& name, llm::ToolFormat format,
                          std::vector<ToolPlace>& places) {
  const bool is_llama = format == llm::ToolFormat::llama3;
  const std::string arguments = is_llama ? "parameters" : "arguments";
  Json calls = Json::array();
  for (std::size_t at = 0; at < tools.size(); ++at) {
    const Json& function = tools[at]["function"];
    if (!name.empty() && function["name"] != name) continue;
    Json schema = {{"type", "object"}, {"additionalProperties", false}};
    if (function.contains("parameters") && function["parameters"].is_object())
      schema = function["parameters"];
    places.push_back({function["name"], fmt::format("tools[{}].function.parameters", at),
                      fmt::format("#/anyOf/{}/properties/{}", calls.size(), arguments)});
    move_references(schema, places.back().pointer);
    if (!schema.contains("type")) schema["type"] = "object";
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", function["name"]}}}, {arguments, schema}}},
                     {"required", {"name", arguments}}});
  }
  Json any;
  any["anyOf"] = std::move(calls);
  return {.kind = llm::GrammarKind::json_schema,
          .text = any.dump(),
          .before = is_llama ? "" : "<tool_call>\n",
          .after = is_llama ? "" : "\n</tool_call>"};
}

}  // namespace

RequestError grammar_refusal(const GenerationRequest& request, std::string message) {
  for (const ToolPlace& place : request.tool_places) {
    std::size_t at = message.find(place.pointer);
    const bool is_only_tool = request.tool_places.size() == 1 && message.starts_with("schema: ");
    if (at == std::string::npos && !is_only_tool) continue;
    for (; at != std::string::npos; at = message.find(place.pointer, at))
      message.replace(at, place.pointer.size(), "#");
    return RequestError(
        400, fmt::format("'{}' of the tool {}: {}", place.field, in_quotes(place.name), message),
        place.field);
  }
  return RequestError(400, message, request.grammar_field);
}

bool has_tools(Fields& fields) {
  const json* list = fields.find("tools");
  return list && !(list->is_array() && list->empty());
}

std::vector<llm::ToolCall> tool_calls_of(Fields& message) {
  const json* list = message.find("tool_calls");
  if (!list) return {};
  if (!list->is_array()) message.refuse("tool_calls", "a list of calls");
  std::vector<llm::ToolCall> calls;
  for (std::size_t at = 0; at < list->size(); ++at) {
    Fields call((*list)[at], fmt::format("{}[{}]", message.place("tool_calls"), at));
    const json* described = call.find("function");
    if (!described) call.refuse("function", "an object with a name and arguments");
    Fields function(*described, call.place("function"));
    const auto name = function.text("name"), arguments = function.text("arguments");
    if (!name) function.refuse("name", "a string");
    if (!arguments || !is_object(*arguments))
      function.refuse("arguments", "a JSON object, as a string");
    calls.push_back({call.text("id").value_or(""), *name, *arguments});
  }
  return calls;
}

void read_tools(Fields& fields, const RequestBody& body, const RequestRules& rules,
                GenerationRequest& result, llm::Request& request) {
  const json* choice = fields.find("tool_choice");
  if (!has_tools(fields)) {
    if (choice && *choice != "none" && *choice != "auto")
      fields.refuse("tool_choice", "a list of tools together with it");
    return;
  }
  if (rules.tool_format == llm::ToolFormat::none)
    throw RequestError(400,
                       "'tools' are not known to this model's chat template, or not in a format "
                       "that this server reads; leave them out",
                       "tools", "unsupported_parameter");
  const std::vector<std::string> names = tool_names(fields);
  if (choice && *choice == "none") return;
  const Json tools = body.ordered("tools");
  request.tools = tools.dump();
  result.tool_format = rules.tool_format;
  if (request.grammar != llm::Grammar())
    throw RequestError(400, "'response_format' and 'tools' exclude each other; give one of them",
                       "response_format");
  const bool has_one_call = !fields.truth("parallel_tool_calls").value_or(true);
  if (!choice || *choice == "auto") {
    // Llama's replies have one call anyway.
    if (has_one_call && rules.tool_format == llm::ToolFormat::qwen)
      request.stop.emplace_back("</tool_call>");
    return;
  }
  std::string name;
  if (*choice != "required") {
    if (!choice->is_object()) fields.refuse("tool_choice", "none, auto, required or a function");
    Fields chosen(*choice, "tool_choice");
    const json* function = chosen.find("function");
    if (!function) chosen.refuse("function", "an object with a name");
    Fields named(*function, "tool_choice.function");
    name = named.text("name").value_or("");
    if (std::find(names.begin(), names.end(), name) == names.end())
      named.refuse("name", "the name of a tool");
  }
  result.grammar_field = "tools";
  request.grammar = call_grammar(tools, name, rules.tool_format, result.tool_places);
}

}  // namespace attacca::server
