// Tests of how calls of functions are found in replies, in whatever pieces they come.
#include "server/tool_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace attacca::server {
namespace {

using llm::ToolCall;
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
    for (const ToolCall& call : piece.calls) found.calls.push_back(call.name + call.arguments);
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
            (Found{"", {"a{\"z\":1,\"b\":\"é\"}"}}));
  EXPECT_EQ(read(ToolFormat::qwen,
                 "Let me see. <tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>\n"
                 "<tool_call>{\"name\":\"b\",\"arguments\":{}}</tool_call>\n"),
            (Found{"Let me see. ", {"a{}", "b{}"}}));
}

TEST(ToolCallsOfQwen, may_lack_the_last_tag) {
  EXPECT_EQ(read(ToolFormat::qwen, "<tool_call>{\"name\":\"a\",\"arguments\":{}}"),
            (Found{"", {"a{}"}}));
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
        "<tool_call>{\"name\":\"a\",\"arguments\":{}</tool_call> more", "x <tool_ca"})
    EXPECT_EQ(read(ToolFormat::qwen, reply), (Found{reply, {}}));
}

TEST(ToolCallsOfLlama, are_the_whole_reply) {
  EXPECT_EQ(read(ToolFormat::llama3, "\n{\"name\": \"a\", \"parameters\": {\"x\": [1]}}"),
            (Found{"", {"a{\"x\":[1]}"}}));
  for (const char* reply : {"plain {\"name\": \"a\", \"parameters\": {}}", "{\"a\": 1}", "{", "",
                            " ", "{\"name\": \"a\", \"parameters\": {}} and more"})
    EXPECT_EQ(read(ToolFormat::llama3, reply), (Found{reply, {}}));
}

TEST(ToolCallsOfOthers, are_text) {
  const std::string reply = "<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(read(ToolFormat::none, reply), (Found{reply, {}}));
}

}  // namespace
}  // namespace attacca::server
