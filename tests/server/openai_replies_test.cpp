// Tests of the JSON that clients read, as it is sent.
#include "server/openai_replies.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attacca::server {
namespace {

using llm::Finish;
using llm::Reply;
using llm::RequestEvent;

ReplyHead head_of(bool is_chat) {
  return {.is_chat = is_chat,
          .id = "id-1",
          .created = 5,
          .model = "small",
          .has_usage = false,
          .token_text = [](std::int32_t token) { return token == 9 ? "\xEF\xBF\xBD" : "é"; },
          .token_bytes = [](std::int32_t token) { return token == 9 ? "\xE2\x98" : "é"; }};
}

Reply reply_of(const std::string& text, const std::vector<std::int32_t>& tokens) {
  Reply reply;
  reply.text = text;
  reply.tokens = tokens;
  reply.prompt_tokens = 4;
  return reply;
}

TEST(WholeReply, of_a_chat_has_messages_and_usage) {
  std::vector<Reply> replies = {reply_of("Hi \"you\"", {1, 2}), reply_of("", {1})};
  replies[0].cached_tokens = 3;
  replies[1].finish = Finish::length;
  EXPECT_EQ(whole_reply(head_of(true), replies, usage_of(replies, 2)),
            R"({"id":"id-1","object":"chat.completion","created":5,"model":"small","choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"Hi \"you\"","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop"},)"
            R"({"index":1,"message":{"role":"assistant","content":"","refusal":null},)"
            R"("logprobs":null,"finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7,)"
            R"("prompt_tokens_details":{"cached_tokens":3}}})");
}

TEST(WholeReply, of_a_text_has_log_probabilities_with_offsets_in_characters) {
  std::vector<Reply> replies = {reply_of("éé", {1, 2})};
  replies[0].logprobs = {{.token = 1, .logprob = -1, .top = {{1, -1.f}}},
                         {.token = 2, .logprob = -0.5, .top = {{9, -2.f}}}};
  const std::vector<std::vector<std::size_t>> offsets = {{0, 1}};
  EXPECT_EQ(whole_reply(head_of(false), replies, {}, offsets),
            R"({"id":"id-1","object":"text_completion","created":5,"model":"small","choices":[)"
            R"({"index":0,"text":"éé","logprobs":{"tokens":["é","é"],"token_logprobs":[-1.0,-0.5],)"
            R"("top_logprobs":[{"é":-1.0},{")"
            "\xEF\xBF\xBD"
            R"(":-2.0}],"text_offset":[0,1]},"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(Stream, of_a_chat_begins_with_the_role_and_ends_with_the_reason) {
  const ReplyHead head = head_of(true);
  const std::string start =
      R"(data: {"id":"id-1","object":"chat.completion.chunk","created":5,"model":"small","choices":[)";
  EXPECT_EQ(first_chunk(head, 1),
            start + R"({"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                    R"("finish_reason":null}]})"
                    "\n\n");
  EXPECT_EQ(text_chunk(head, 0, "Hi", std::nullopt, 0),
            start + R"({"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]})"
                    "\n\n");
  EXPECT_EQ(end_chunk(head, 0, Finish::stop, false),
            start + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})"
                    "\n\n");
}

TEST(Stream, has_the_bytes_of_a_token_though_it_is_part_of_a_character) {
  const llm::TokenLogprob logprob = {.token = 1, .logprob = -1, .top = {{9, -2.f}}};
  EXPECT_EQ(text_chunk(head_of(true), 0, "", logprob, 0),
            R"(data: {"id":"id-1","object":"chat.completion.chunk","created":5,"model":"small",)"
            R"("choices":[{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"é",)"
            R"("logprob":-1.0,"bytes":[195,169],"top_logprobs":[{"token":")"
            "\xEF\xBF\xBD"
            R"(","logprob":-2.0,"bytes":[226,152]}]}],"refusal":null},"finish_reason":null}]})"
            "\n\n");
}

TEST(TextFrame, gives_the_chunks_of_any_text) {
  for (const bool is_chat : {true, false}) {
    ReplyHead head = head_of(is_chat);
    head.has_usage = is_chat;
    const TextFrame frame(head, 3);
    for (const char* text : {"a", "", "\"", "\\n\n\x01", "é\xff", "aa", "data: "})
      EXPECT_EQ(frame.chunk(text), text_chunk(head, 3, text, std::nullopt, 0)) << text;
  }
}

TEST(Stream, of_a_text_has_no_first_chunk) {
  const ReplyHead head = head_of(false);
  EXPECT_EQ(first_chunk(head, 0), "");
  EXPECT_EQ(text_chunk(head, 2, "a", std::nullopt, 0),
            R"(data: {"id":"id-1","object":"text_completion","created":5,"model":"small",)"
            R"("choices":[{"index":2,"text":"a","logprobs":null,"finish_reason":null}]})"
            "\n\n");
}

TEST(Stream, has_calls_as_deltas_with_their_numbers) {
  const std::vector<CallDelta> deltas = {{1, "", "}"}, {2, "f", R"({"a":)"}};
  EXPECT_EQ(call_chunk(head_of(true), 1, deltas),
            R"(data: {"id":"id-1","object":"chat.completion.chunk","created":5,"model":"small",)"
            R"("choices":[{"index":1,"delta":{"tool_calls":[{"index":1,"function":)"
            R"({"arguments":"}"}},{"index":2,"id":"call-id-1-1-2","type":"function",)"
            R"("function":{"name":"f","arguments":"{\"a\":"}}]},)"
            R"("logprobs":null,"finish_reason":null}]})"
            "\n\n");
  EXPECT_NE(end_chunk(head_of(true), 0, Finish::stop, true).find(R"("finish_reason":"tool_calls")"),
            std::string::npos);
}

TEST(WholeReply, has_calls_where_the_text_has_them) {
  ReplyHead head = head_of(true);
  head.tool_format = llm::ToolFormat::llama3;
  std::vector<llm::Reply> replies(1);
  replies[0].text = R"({"name": "f", "parameters": {}})";
  EXPECT_NE(whole_reply(head, replies, {})
                .find(R"("message":{"role":"assistant","content":null,"refusal":null,"tool_calls":)"
                      R"([{"id":"call-id-1-0-0","type":"function","function":{"name":"f",)"
                      R"("arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls")"),
            std::string::npos);
}

TEST(Stream, has_usage_in_its_last_chunk_and_null_in_the_others) {
  ReplyHead head = head_of(false);
  head.has_usage = true;
  EXPECT_NE(end_chunk(head, 0, Finish::length, false).find(R"("usage":null})"), std::string::npos);
  EXPECT_EQ(usage_chunk(head, {.prompt_tokens = 2, .completion_tokens = 1, .cached_tokens = 1}),
            R"(data: {"id":"id-1","object":"text_completion","created":5,"model":"small",)"
            R"("choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,)"
            R"("prompt_tokens_details":{"cached_tokens":1}}})"
            "\n\n");
}

TEST(Embeddings, have_the_length_1_as_numbers_or_as_their_bytes) {
  std::vector<llm::Reply> replies(2);
  replies[0].embedding = {3, 0, -4, 0};
  replies[1].embedding = {0, 0, 0, 2};
  const Usage usage = {.prompt_tokens = 7, .completion_tokens = 0, .cached_tokens = 0};
  EXPECT_EQ(embeddings_reply(head_of(false), std::span(replies).subspan(1), usage, false),
            R"({"object":"list","data":[{"object":"embedding","index":0,)"
            R"("embedding":[0.0,0.0,0.0,1.0]}],"model":"small",)"
            R"("usage":{"prompt_tokens":7,"total_tokens":7}})");
  EXPECT_NE(embeddings_reply(head_of(false), replies, usage, true)
                .find(R"("embedding":"mpkZPwAAAADNzEy/AAAAAA==")"),
            std::string::npos)
      << "0.6, 0, -0.8, 0 in little-endian";
}

TEST(Errors, have_openais_form) {
  EXPECT_EQ(error_json(RequestError(400, "'n' is 0", "n")),
            R"({"error":{"message":"'n' is 0","type":"invalid_request_error","param":"n",)"
            R"("code":null}})");
  const HttpReply busy = error_reply(RequestError(429, "later"));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers, (HttpHeaders{{"Retry-After", "1"}}));
}

}  // namespace
}  // namespace attacca::server
