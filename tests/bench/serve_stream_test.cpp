// Tests of what `attacca bench serve` reads: addresses, server-sent events and the completions in
// them. The bytes are a server's and may be anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <attacca/error.hpp>

#include "bench/serve/completion.hpp"
#include "bench/serve/sse.hpp"
#include "bench/serve/url.hpp"

namespace {

using namespace bench::serve;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The events in `bytes`, which arrive in pieces of that size.
std::vector<std::string> events_in(std::string_view bytes, std::size_t piece) {
  SseParser parser;
  std::vector<std::string> events;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    EXPECT_TRUE(parser.feed(bytes.substr(0, piece),
                            [&](std::string_view data) { events.emplace_back(data); }));
  return events;
}

TEST(ServeUrl, a_host_alone_means_the_path_v1) {
  const Url url = parse_url("http://localhost:8000");
  EXPECT_EQ(url.text(), "http://localhost:8000/v1");
  EXPECT_EQ(url.root, "");
  EXPECT_EQ(parse_url("http://a.b/").text(), "http://a.b:80/v1");
  EXPECT_EQ(parse_url("https://a.b").text(), "https://a.b:443/v1");
  EXPECT_FALSE(url.is_tls);
  EXPECT_TRUE(parse_url("https://a.b").is_tls);
}

TEST(ServeUrl, a_path_is_kept_and_tokenize_lies_beside_v1) {
  const Url url = parse_url("http://[::1]:8000/proxy/v1/");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.authority(), "[::1]:8000");
  EXPECT_EQ(url.api, "/proxy/v1");
  EXPECT_EQ(url.root, "/proxy");
  EXPECT_EQ(parse_url("http://[::1]/api").text(), "http://[::1]:80/api");
}

TEST(ServeUrl, what_cannot_be_used_is_named) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      parse_url(text);
    } catch (const attacca::BadArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* text : {"", "HTTPS://a", "a:80", "ftp://a", "http:/a"})
    EXPECT_THAT(refusal(text), HasSubstr("http://127.0.0.1:8000 is expected")) << text;
  for (const char* text : {"http://", "http://:80", "http:///v1", "http://[]:1"})
    EXPECT_THAT(refusal(text), HasSubstr("the host is missing")) << text;
  for (const char* text :
       {"http://a:", "http://a:0", "http://a:70000", "http://a:8x", "http://[::1]:x"})
    EXPECT_THAT(refusal(text), HasSubstr("1 to 65535")) << text;
  for (const char* text : {"http://u@a", "http://a/?b", "http://a#c"})
    EXPECT_THAT(refusal(text), HasSubstr("leave out the part")) << text;
  EXPECT_THAT(refusal("http://a b"), HasSubstr("no blanks"));
  EXPECT_THAT(refusal("http://a\r\nX: y"), HasSubstr("no blanks"));
}

TEST(ServeEvents, are_the_same_however_the_bytes_are_cut) {
  const std::string stream =
      "\xEF\xBB\xBF: a comment\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata:  three\nid: 4\n\n"
      "data\r\rdata: four\r\rdata:never ends\n";
  for (std::size_t piece = 1; piece <= stream.size(); ++piece)
    EXPECT_THAT(events_in(stream, piece), ElementsAre("one", "two\n three", "", "four")) << piece;
}

TEST(ServeEvents, other_lines_and_empty_ones_are_no_events) {
  for (const char* stream :
       {"", "\n\n\n", "hello\n\n", "datax: 1\n\n", "{\"a\": 1}\n\n", "data: 1\n"})
    EXPECT_THAT(events_in(stream, 3), IsEmpty()) << stream;
}

TEST(ServeEvents, one_that_does_not_end_is_given_up) {
  SseParser parser(100);
  const auto ignore = [](std::string_view) { FAIL(); };
  for (int line = 0; line < 10; ++line) EXPECT_TRUE(parser.feed("data: 12345678\n", ignore));
  EXPECT_FALSE(parser.feed("data: 12345678901234\n", ignore));
  EXPECT_FALSE(parser.feed("\n", ignore));
}

TEST(ServeCompletion, events_of_both_endpoints_have_text) {
  const auto has_text = [](const char* data) { return parse_event(data).value().has_text; };
  EXPECT_TRUE(has_text(R"({"choices": [{"text": "a"}]})"));
  EXPECT_TRUE(has_text(R"({"choices": [{"delta": {"content": "a"}}]})"));
  EXPECT_TRUE(has_text(R"({"choices": [{"delta": {"reasoning_content": "a"}}]})"));
  EXPECT_FALSE(has_text(R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})"));
  EXPECT_FALSE(has_text(R"({"choices": [{"delta": {"content": null}, "finish_reason": "stop"}]})"));
  EXPECT_FALSE(has_text(R"({"choices": [], "usage": null})"));
}

TEST(ServeCompletion, the_usage_and_an_error_are_found) {
  const auto event = parse_event(R"({"choices": [{"text": "", "finish_reason": "length"}],
      "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}})");
  ASSERT_TRUE(event && event->usage && event->is_last);
  EXPECT_EQ(event->usage->prompt_tokens, 7u);
  EXPECT_EQ(event->usage->output_tokens, 3u);
  EXPECT_EQ(event->usage->cached_tokens, 4u);
  EXPECT_EQ(parse_event(R"({"error": {"message": "lost"}})")->error, "lost");
  EXPECT_EQ(parse_event(R"({"error": "lost"})")->error, "lost");
  EXPECT_EQ(parse_event(R"({"error": {"code": 5}})")->error, R"({"code":5})");
}

TEST(ServeCompletion, fields_of_other_types_are_ignored) {
  for (const char* data : {"", "[1]", "17", "{", "null", "\xFF"})
    EXPECT_FALSE(parse_event(data)) << data;
  for (const char* data :
       {"{}", R"({"choices": 3})", R"({"choices": [3, null, {"delta": "x"}, {"text": {}}]})",
        R"({"usage": [], "choices": {"text": "a"}})"}) {
    const auto event = parse_event(data);
    ASSERT_TRUE(event) << data;
    EXPECT_FALSE(event->has_text || event->is_last || event->usage || event->error) << data;
  }
  const auto strange = parse_event(R"({"usage": {"prompt_tokens": -1, "completion_tokens": "x"}})");
  EXPECT_EQ(strange.value().usage.value().prompt_tokens, 0u);
  EXPECT_TRUE(parse_event("{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}"));
}

TEST(ServeCompletion, the_words_of_a_server_are_made_safe_for_a_terminal) {
  EXPECT_EQ(error_message("{\"error\": {\"message\": \"no \\u001b[31m key\"}}"), "no  [31m key");
  EXPECT_EQ(error_message("<html>\n"), "<html> ");
  EXPECT_EQ(error_message(std::string(1000, 'x')).size(), 303u);
}

}  // namespace
