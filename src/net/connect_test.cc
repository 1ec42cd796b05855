#include "net/connect.h"

#include <gtest/gtest.h>

namespace space::connect {
namespace {

std::string text_of(const Bytes& bytes) {
  return std::string(as_text(bytes));
}

TEST(Envelope, Encoding) {
  EXPECT_EQ(text_of(envelope(0, "abc")), std::string("\0\0\0\0\3abc", 8));
  EXPECT_EQ(text_of(end_of_stream()), std::string("\2\0\0\0\2{}", 7));
  const std::string error = text_of(end_of_stream({RpcCode::not_found, "no \"x\""}));
  EXPECT_EQ(error[0], 2);
  EXPECT_EQ(error.substr(5), R"({"error":{"code":"not_found","message":"no \"x\""}})");
  EXPECT_EQ(read_be32(as_bytes(error).subspan<1, 4>()), error.size() - 5);
}

TEST(Envelope, ReadsBackWhateverTheSplit) {
  const std::string stream =
      text_of(envelope(0, "first")) + text_of(envelope(0, "")) + text_of(envelope(flag_end_of_stream, "{}"));
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    EnvelopeReader reader;
    std::vector<Envelope> seen;
    for (const std::string_view part :
         {std::string_view(stream).substr(0, cut), std::string_view(stream).substr(cut)}) {
      reader.feed(as_bytes(part));
      for (auto next = reader.next(); *next; next = reader.next()) seen.push_back(**std::move(next));
    }
    ASSERT_EQ(seen.size(), 3U) << cut;
    EXPECT_EQ(seen[0].payload, "first");
    EXPECT_EQ(seen[1].payload, "");
    EXPECT_EQ(seen[2].flags, flag_end_of_stream);
    EXPECT_TRUE(reader.empty());
  }
}

TEST(Envelope, ByteByByte) {
  const std::string stream = text_of(envelope(0, "payload"));
  EnvelopeReader reader;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    EXPECT_FALSE(reader.next()->has_value());
    reader.feed(as_bytes(std::string_view(stream).substr(i, 1)));
    EXPECT_FALSE(reader.empty());
  }
  EXPECT_EQ((**reader.next()).payload, "payload");
  EXPECT_TRUE(reader.empty());
}

TEST(Envelope, RefusalsComeBeforeTheContent) {
  EnvelopeReader compressed;
  compressed.feed(as_bytes(std::string_view("\1", 1)));
  EXPECT_EQ(compressed.next().error().code, Code::invalid_argument);
  EnvelopeReader unknown;
  unknown.feed(as_bytes(std::string_view("\x80", 1)));
  EXPECT_EQ(unknown.next().error().code, Code::invalid_argument);
  EnvelopeReader large;
  large.feed(as_bytes(std::string_view("\0\xff\xff\xff\xff", 5)));
  EXPECT_EQ(large.next().error().code, Code::exhausted);
  EnvelopeReader small(3);
  small.feed(envelope(0, "abc"));
  EXPECT_TRUE(small.next()->has_value());
  small.feed(envelope(0, "abcd"));
  EXPECT_EQ(small.next().error().code, Code::exhausted);
}

TEST(RpcCode, StatusAndName) {
  EXPECT_EQ(to_string(RpcCode::canceled), "canceled");
  EXPECT_EQ(to_string(RpcCode::unauthenticated), "unauthenticated");
  EXPECT_EQ(to_string(RpcCode::deadline_exceeded), "deadline_exceeded");
  EXPECT_EQ(http_status(RpcCode::canceled), 499);
  EXPECT_EQ(http_status(RpcCode::failed_precondition), 400);
  EXPECT_EQ(http_status(RpcCode::unavailable), 503);
  EXPECT_EQ(http_status(RpcCode::unauthenticated), 401);
  EXPECT_EQ(rpc_code(Code::not_found), RpcCode::not_found);
  EXPECT_EQ(rpc_code(Code::deadline), RpcCode::deadline_exceeded);
  EXPECT_EQ(unary_error_body({RpcCode::internal, "a\nb"}), R"({"code":"internal","message":"a\nb"})");
}

}  // namespace
}  // namespace space::connect
