#include "netd/dns_message.h"

#include <gtest/gtest.h>

#include "netd/dns_answer.h"

namespace space::netd {
namespace {

Bytes bytes_of(std::string_view text) {
  const auto view = as_bytes(text);
  return {view.begin(), view.end()};
}
using namespace std::string_literals;

const std::string query_head = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"s;
const std::string answer_head = "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"s;
const std::string question = "\x01"s + "a\x02" + "Bc\x00\x00\x01\x00\x01"s;

DnsMessage parsed(std::string_view text) {
  auto message = parse_dns(as_bytes(text));
  EXPECT_TRUE(message) << message.error().message;
  return message ? *std::move(message) : DnsMessage();
}

TEST(DnsMessage, ReadsAQuestion) {
  const DnsMessage message = parsed(query_head + question);
  EXPECT_EQ(message.id, 0x1234);
  EXPECT_FALSE(message.response);
  EXPECT_TRUE(message.recursion_desired);
  EXPECT_EQ(message.question, (DnsQuestion{.name = "a.Bc", .type = DnsType::a}));
  EXPECT_FALSE(message.edns);
}

TEST(DnsMessage, ReadsEdns) {
  const std::string head = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"s;
  const std::string opt = "\x00\x00\x29\x04\xd0\x01\x02\x80\x00\x00\x00"s;
  const DnsMessage message = parsed(head + question + opt);
  ASSERT_TRUE(message.edns);
  EXPECT_EQ(*message.edns, (Edns{.udp_size = 1232, .version = 2}));
  EXPECT_EQ(message.rcode, DnsRcode::bad_version);
  const std::string two = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02"s;
  EXPECT_FALSE(parse_dns(as_bytes(two + question + opt + opt)));
}

TEST(DnsMessage, PointersGoBackOnly) {
  const std::string data = "\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01x\xc0\x0e"s;
  const DnsMessage message = parsed(answer_head + question + "\xc0\x0c"s + data);
  ASSERT_EQ(message.answers.size(), 1U);
  EXPECT_EQ(message.answers[0].name, "a.Bc");
  EXPECT_EQ(message.answers[0].ttl, 60U);
  EXPECT_EQ(name_in(message.answers[0]), "x.Bc");
  // To itself, forward, to a byte that is not there.
  for (const char* pointer : {"\xc0\x15", "\xc0\x20", "\xff\xff"}) {
    EXPECT_FALSE(parse_dns(as_bytes(answer_head + question + pointer + data))) << pointer;
  }
  EXPECT_FALSE(parse_dns(as_bytes(query_head + "\xc0\x0c\x00\x01\x00\x01"s)));
}

TEST(DnsMessage, DataThatDoesNotFitItsLengthIsRefused) {
  const auto record = [](std::string_view length_and_data) {
    return parse_dns(as_bytes(answer_head + question + "\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c"s +
                              std::string(length_and_data)));
  };
  EXPECT_TRUE(record("\x00\x02\xc0\x0c"s));
  EXPECT_FALSE(record("\x00\x01\xc0\x0c"s));
  EXPECT_FALSE(record("\x00\x03\xc0\x0c\x00"s));
  EXPECT_FALSE(record("\x00\x02\xc0"s));
  EXPECT_FALSE(record("\xff\xff\xc0\x0c"s));
}

TEST(DnsMessage, LimitsHold) {
  const std::string label = "\x3f" + std::string(63, 'a');
  const std::string longest = label + label + label + "\x3d" + std::string(61, 'b') + "\x00"s;
  ASSERT_EQ(longest.size(), 255U);
  EXPECT_TRUE(parse_dns(as_bytes(query_head + longest + "\x00\x01\x00\x01"s)));
  const std::string longer = label + label + label + "\x3e" + std::string(62, 'b') + "\x00"s;
  EXPECT_FALSE(parse_dns(as_bytes(query_head + longer + "\x00\x01\x00\x01"s)));
  EXPECT_FALSE(parse_dns(as_bytes(query_head + "\x40" + std::string(64, 'a') + "\x00\x00\x01\x00\x01"s)));
  EXPECT_FALSE(parse_dns(as_bytes(query_head + question + "x")));
  EXPECT_FALSE(
      parse_dns(as_bytes("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00"s + question + question)));
  const std::string many = "\x12\x34\x81\x80\x00\x01\x00\x81\x00\x00\x00\x00"s;
  std::string records;
  for (int i = 0; i < 129; ++i) records += "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04zzzz"s;
  EXPECT_FALSE(parse_dns(as_bytes(many + question + records)));
  const std::string all_but_one = "\x12\x34\x81\x80\x00\x01\x00\x80\x00\x00\x00\x00"s;
  EXPECT_TRUE(parse_dns(as_bytes(all_but_one + question + records.substr(16))));
}

TEST(DnsMessage, EveryPrefixIsRefused) {
  const std::string whole = answer_head + question + "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04zzzz"s;
  ASSERT_TRUE(parse_dns(as_bytes(whole)));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_dns(as_bytes(std::string_view(whole).substr(0, size)))) << size;
  }
}

TEST(DnsMessage, NamesOfAnyBytesHaveOneText) {
  const std::string wire = "\x05"s + "a.b\\c" + "\x03\x00 \xff\x00"s;
  const DnsMessage message = parsed(query_head + wire + "\x00\x01\x00\x01"s);
  EXPECT_EQ(message.question.name, "a\\.b\\\\c.\\000\\032\\255");
  EXPECT_EQ(name_to_wire(message.question.name), bytes_of(wire));
  EXPECT_EQ(name_to_wire(""), bytes_of("\x00"s));
  for (const char* none : {".", "a.", "a..b", ".a", "a\\", "a\\25", "a\\256"}) {
    EXPECT_TRUE(name_to_wire(none).empty()) << none;
  }
}

TEST(DnsMessage, HeadersOfWhatIsNoQuestion) {
  EXPECT_EQ(query_header(as_bytes(query_head + "\xff"))->id, 0x1234);
  EXPECT_FALSE(query_header(as_bytes(query_head).first(11)));
  EXPECT_FALSE(query_header(as_bytes(answer_head)));
}

DnsAnswer answer_with(std::size_t records) {
  DnsAnswer answer = answer_to(parsed(query_head + question));
  answer.records.push_back(
      {.name = "a.bc", .type = DnsType::cname, .ttl = 5, .data = name_to_wire("cdn.example.net")});
  for (std::size_t i = 0; i < records; ++i) {
    answer.records.push_back(
        address_record("cdn.example.net", IpAddress::v4(static_cast<std::uint32_t>(i)), 60));
  }
  return answer;
}

TEST(DnsAnswer, IsReadBackAsWritten) {
  DnsAnswer answer = answer_with(3);
  answer.with_edns = true;
  const Bytes wire = write_answer(answer, 512);
  const DnsMessage message = parsed(as_text(wire));
  EXPECT_TRUE(message.response);
  EXPECT_TRUE(message.recursion_available);
  EXPECT_FALSE(message.truncated);
  EXPECT_EQ(message.question.name, "a.Bc");
  EXPECT_EQ(message.answers, answer.records);
  EXPECT_TRUE(message.edns);
  EXPECT_EQ(address_in(message.answers[3]), IpAddress::v4(2));
  // The name of the addresses is written once.
  EXPECT_EQ(as_text(wire).find("example"), as_text(wire).rfind("example"));
}

TEST(DnsAnswer, SaysThatItIsTruncated) {
  const DnsAnswer answer = answer_with(40);
  const DnsMessage small = parsed(as_text(write_answer(answer, 512)));
  EXPECT_TRUE(small.truncated);
  EXPECT_TRUE(small.answers.empty());
  const DnsMessage large = parsed(as_text(write_answer(answer, 4096)));
  EXPECT_FALSE(large.truncated);
  EXPECT_EQ(large.answers.size(), 41U);
}

TEST(DnsAnswer, ExplainsToWhoSpeaksEdns) {
  DnsAnswer answer = answer_with(0);
  answer.explanation = {.code = ExtendedError::blocked, .text = "deny_mode"};
  EXPECT_EQ(as_text(write_answer(answer, 512)).find("deny_mode"), std::string_view::npos);
  answer.with_edns = true;
  const Bytes wire = write_answer(answer, 512);
  EXPECT_NE(as_text(wire).find("\x00\x0f\x00\x0b\x00\x0f"s + "deny_mode"), std::string_view::npos);
  EXPECT_TRUE(parse_dns(wire));
}

TEST(DnsAnswer, QuestionsAreWritten) {
  const DnsMessage message =
      parsed(as_text(write_query(7, {.name = "eXample.com", .type = DnsType::https}, true)));
  EXPECT_EQ(message.id, 7);
  EXPECT_EQ(message.question.name, "eXample.com");
  EXPECT_EQ(message.edns->udp_size, 1232);
  EXPECT_FALSE(parsed(as_text(write_query(7, {.name = "a", .type = DnsType::a}, false))).edns);
}

}  // namespace
}  // namespace space::netd
