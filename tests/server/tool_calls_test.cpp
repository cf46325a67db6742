// Tests of how calls of functions are found in replies, in whatever pieces they come.
#include "server/tool_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace attacca::server {
namespace {

using llm::ToolFormat;

struct Found {
  std::string content;
  std::vector<std::string> calls;  // name and arguments
  bool operator==(const Found&) const = default;
};

/// The reply in pieces of `length` bytes.
Found read(ToolFormat format, const std::string& reply, std::size_t length) {
  ToolCallReader reader(format);
  Found found;
  const auto take = [&](const ToolPiece& piece) {
    found.content += piece.content;
    for (const CallDelta& delta : piece.calls) {
      EXPECT_EQ(delta.call + 1, found.calls.size() + !delta.name.empty());
      if (!delta.name.empty()) found.calls.emplace_back();
      found.calls.back() += delta.name + delta.arguments;
    }
  };
  for (std::size_t at = 0; at < reply.size(); at += length)
    take(reader.push(std::string_view(reply).substr(at, length)));
  take(reader.finish());
  EXPECT_EQ(reader.calls(), found.calls.size());
  return found;
}

/// The same for all pieces.
Found read(ToolFormat format, const std::string& reply) {
  const Found whole = read(format, reply, std::max<std::size_t>(reply.size(), 1));
  for (const std::size_t length : {1, 2, 3, 7, 20})
    EXPECT_EQ(read(format, reply, length), whole) << reply << " in pieces of " << length;
  return whole;
}

TEST(ToolCallsOfQwen, are_json_between_tags) {
  EXPECT_EQ(read(ToolFormat::qwen,
                 "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"z\": 1, "
                 "\"b\": \"é\"}}\n</tool_call>"),
            (Found{"", {"a{\"z\": 1, \"b\": \"é\"}"}}));
  EXPECT_EQ(read(ToolFormat::qwen,
                 "Let me see. <tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>\n"
                 "<tool_call>{\"name\":\"b\",\"arguments\":{}}</tool_call>\n"),
            (Found{"Let me see. ", {"a{}", "b{}"}}));
}

TEST(ToolCallsOfQwen, may_lack_the_last_tag_or_bracket) {
  EXPECT_EQ(read(ToolFormat::qwen, "<tool_call>{\"name\":\"a\",\"arguments\":{}}"),
            (Found{"", {"a{}"}}));
  EXPECT_EQ(read(ToolFormat::qwen, "<tool_call>{\"name\":\"a\",\"arguments\":{}} more"),
            (Found{"more", {"a{}"}}));
  EXPECT_EQ(read(ToolFormat::qwen, "<tool_call>{\"name\":\"a\",\"arguments\":{}</tool_call> more"),
            (Found{"more", {"a{}"}}));
}

TEST(ToolCallsOfQwen, may_have_their_parts_in_any_order) {
  EXPECT_EQ(read(ToolFormat::qwen,
                 R"(<tool_call>{"arguments": {"b": "}"}, "name": "a"}</tool_call> more)"),
            (Found{"more", {R"(a{"b":"}"})"}}));
}

TEST(ToolCallsOfQwen, may_have_a_tag_within_a_string) {
  EXPECT_EQ(
      read(ToolFormat::qwen,
           R"(<tool_call>{"name":"a","arguments":{"b":"</tool_call><tool_call>"}}</tool_call>)"),
      (Found{"", {R"(a{"b":"</tool_call><tool_call>"})"}}));
}

TEST(ToolCallsOfQwen, that_cannot_be_read_do_not_hide_others) {
  EXPECT_EQ(
      read(ToolFormat::qwen,
           "<tool_call>oh</tool_call> <tool_call>{\"name\":\"b\",\"arguments\":{}}</tool_call>"),
      (Found{"<tool_call>oh</tool_call> ", {"b{}"}}));
}

TEST(ToolCallsOfQwen, that_cannot_be_read_are_text) {
  for (const char* reply :
       {"plain", "a < b", "<tool_calls>", "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>",
        "<tool_call> \n", "<tool_call>{\"name\":\"\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"a\",\"arguments\":", "<tool_call>{\"name\":\"a\",\"arg\":{}}",
        "x <tool_ca"})
    EXPECT_EQ(read(ToolFormat::qwen, reply), (Found{reply, {}}));
}

TEST(ToolCalls, are_told_as_they_come) {
  for (const auto& [format, before] :
       {std::pair(ToolFormat::qwen, R"(<tool_call>{"name": "a", "arguments": )"),
        std::pair(ToolFormat::llama3, R"({"name": "a", "parameters": )")}) {
    ToolCallReader reader(format);
    EXPECT_TRUE(reader.push(before).calls.empty());
    const ToolPiece first = reader.push(R"({"b": ")");
    ASSERT_EQ(first.calls.size(), 1u);
    EXPECT_EQ(first.calls[0].name, "a");
    EXPECT_EQ(first.calls[0].arguments, R"({"b": ")");
    const ToolPiece second = reader.push(R"(\"}c)");
    ASSERT_EQ(second.calls.size(), 1u);
    EXPECT_EQ(second.calls[0].name, "");
    EXPECT_EQ(second.calls[0].arguments, R"(\"}c)");
    EXPECT_TRUE(reader.finish().calls.empty());
  }
}

TEST(ToolCallsOfLlama, begin_with_the_reply) {
  EXPECT_EQ(read(ToolFormat::llama3, "\n{\"name\": \"a\", \"parameters\": {\"x\": [1]}}"),
            (Found{"", {"a{\"x\": [1]}"}}));
  EXPECT_EQ(read(ToolFormat::llama3, R"({"type":"function","name":"a","parameters":{"x": 1}})"),
            (Found{"", {R"(a{"x":1})"}}));
  EXPECT_EQ(read(ToolFormat::llama3, "{\"name\": \"a\", \"parameters\": {}} and more"),
            (Found{"and more", {"a{}"}}));
  for (const char* reply :
       {"plain {\"name\": \"a\", \"parameters\": {}}", "{\"a\": 1}", "{", "", " "})
    EXPECT_EQ(read(ToolFormat::llama3, reply), (Found{reply, {}}));
}

TEST(ToolCallsOfOthers, are_text) {
  const std::string reply = "<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(read(ToolFormat::none, reply), (Found{reply, {}}));
}

}  // namespace
}  // namespace attacca::server
