// Tests of what stands before the engine: keys, origins, admission, the bytes of HTTP replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include "server/admission.hpp"
#include "server/api_keys.hpp"
#include "server/cors.hpp"
#include "server/http_text.hpp"

namespace attacca::server {
namespace {

TEST(ApiKeys, let_in_who_shows_one_of_them) {
  const ApiKeys keys("# a comment\r\n\n  one  \ntwo");
  EXPECT_TRUE(keys.lets_in("Bearer one"));
  EXPECT_TRUE(keys.lets_in("bearer two"));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer on", "Bearer onee", "Bearer oneone",
                            "Basic one", "one", "Bearer  one", "Bearer One", "Bearer # a comment"})
    EXPECT_FALSE(keys.lets_in(wrong)) << wrong;
}

TEST(ApiKeys, without_keys_everyone_comes_in) { EXPECT_TRUE(ApiKeys().lets_in("")); }

TEST(ApiKeys, a_file_without_a_key_is_refused) {
  EXPECT_THROW(ApiKeys("\n# none\n"), BadArgument);
  EXPECT_THROW(ApiKeys("two words"), BadArgument);
}

TEST(Admission, has_room_for_slots_and_those_that_wait) {
  Admission admission(2, 1);
  EXPECT_FALSE(admission.enter(4));
  EXPECT_TRUE(admission.enter(2));
  EXPECT_FALSE(admission.enter(2));
  EXPECT_TRUE(admission.enter(1));
  EXPECT_TRUE(admission.is_full());
  admission.leave(2);
  EXPECT_EQ(admission.inside(), 1u);
  EXPECT_TRUE(admission.enter(2));
}

TEST(Admission, cannot_be_tricked_by_a_huge_number) {
  Admission admission(2, 1);
  ASSERT_TRUE(admission.enter(1));
  EXPECT_FALSE(admission.enter(~std::size_t{0}));
  EXPECT_EQ(admission.inside(), 1u);
}

TEST(ReplyText, has_the_length_and_the_headers) {
  const HttpReply reply{.status = 429, .body = "no", .headers = {{"Retry-After", "1"}}};
  EXPECT_EQ(reply_text(reply, {}),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nRetry-After: 1\r\n\r\nno");
  EXPECT_EQ(reply_text({.body = "hello"}, {.keeps_alive = false, .is_head = true}),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
            "Connection: close\r\n\r\n");
}

TEST(StreamText, is_chunks_for_clients_that_know_them) {
  const HttpReply head{.body = "0123456789abcdef", .content_type = "text/event-stream"};
  EXPECT_EQ(stream_head(head, {}),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            "Transfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n");
  EXPECT_EQ(stream_piece("", {}), "");
  EXPECT_EQ(stream_end({}), "0\r\n\r\n");
  const ReplyForm old{.is_http11 = false, .keeps_alive = false};
  EXPECT_EQ(stream_piece("abc", old), "abc");
  EXPECT_EQ(stream_end(old), "");
}

TEST(Cors, lets_only_pages_of_its_origins_read) {
  const Cors none, one({"https://example.org"}), all({"http://a:1", "*"});
  EXPECT_FALSE(none.allows("https://example.org"));
  EXPECT_TRUE(one.allows("https://example.org"));
  for (const char* other : {"", "null", "http://example.org", "https://example.org:1", "*"})
    EXPECT_FALSE(one.allows(other)) << other;
  EXPECT_TRUE(all.allows("https://elsewhere.net"));
  EXPECT_FALSE(all.allows("")) << "no page asks";
}

TEST(Cors, refuses_what_no_browser_sends) {
  for (const char* wrong : {"", "example.org", "https://", "://a", "https://a/", "https://a b",
                            "https://*.a", "https://a,https://b"})
    EXPECT_THROW(Cors({wrong}), BadArgument) << wrong;
}

}  // namespace
}  // namespace attacca::server
