#include "netd/client_hello.h"

#include <gtest/gtest.h>

#include <string>

namespace space::netd {
namespace {

using State = ClientHelloReader::State;

std::string big_endian(std::size_t value, unsigned size) {
  std::string out;
  for (unsigned i = size; i-- > 0;) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string field(std::string_view content, unsigned length_size) {
  return big_endian(content.size(), length_size) + std::string(content);
}
std::string extension(unsigned type, std::string_view data) {
  return big_endian(type, 2) + field(data, 2);
}
std::string server_name(std::string_view name) {
  return extension(0, field(std::string(1, '\0') + field(name, 2), 2));
}
std::string message(std::string_view extensions, std::string_view extra = "") {
  std::string body("\x03\x03");
  body += std::string(32, 'r') + field("session", 1) + field("\x13\x01", 2) + field(std::string(1, '\0'), 1);
  body += field(extensions, 2);
  body += extra;
  return "\x01" + field(body, 3);
}
std::string record(std::string_view payload) {
  return "\x16\x03\x01" + field(payload, 2);
}

ClientHelloReader read(std::string_view bytes, std::size_t step = 1 << 20) {
  ClientHelloReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += step) reader.feed(as_bytes(bytes.substr(at, step)));
  return reader;
}

TEST(ClientHello, SaysWhatTheClientNames) {
  const std::string alpn = extension(16, field(field("h2", 1) + field("http/1.1", 1), 2));
  const auto reader = read(record(message(server_name("Example.com") + alpn)));
  ASSERT_EQ(reader.state(), State::complete);
  EXPECT_EQ(reader.server_name(), "Example.com");
  EXPECT_EQ(reader.alpn(), (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_FALSE(reader.ech());
  EXPECT_TRUE(read(record(message(server_name("a.b") + extension(0xfe0d, "grease")))).ech());
}

TEST(ClientHello, NamesThatAreNoneAreTheCallersToJudge) {
  EXPECT_FALSE(read(record(message(""))).server_name());
  EXPECT_EQ(read(record(message(""))).state(), State::complete);
  const std::vector<std::string> names = {"", "10.0.0.1", std::string(300, 'a'), std::string("a\0b", 3),
                                          "b\xc3\xbc.de"};
  for (const std::string& name : names) {
    const auto reader = read(record(message(server_name(name))));
    EXPECT_EQ(reader.state(), State::complete);
    EXPECT_EQ(reader.server_name(), name);
  }
}

TEST(ClientHello, ArrivesInAnyPieces) {
  const std::string hello = message(server_name("split.example.org"));
  const std::string three =
      record(hello.substr(0, 3)) + record(hello.substr(3, 60)) + record(hello.substr(63));
  for (const std::string& bytes : {record(hello), three}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
      const auto reader = read(bytes, step);
      EXPECT_EQ(reader.state(), State::complete);
      EXPECT_EQ(reader.server_name(), "split.example.org");
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(read(std::string_view(bytes).substr(0, size)).state(), State::more) << size;
    }
  }
}

TEST(ClientHello, WhatFollowsItIsNotRead) {
  const auto reader = read(record(message(server_name("a.b"))) + std::string("\x14\x03\x03\x00\x01\x01", 6));
  EXPECT_EQ(reader.state(), State::complete);
}

TEST(ClientHello, TwoWaysToReadItAreRefused) {
  const std::string one = std::string(1, '\0') + field("a.b", 2);
  const std::string name = server_name("a.b");
  EXPECT_EQ(read(record(message(name))).state(), State::complete);
  EXPECT_EQ(read(record(message(extension(0, field(one + one, 2))))).state(), State::invalid);
  EXPECT_EQ(read(record(message(name + name))).state(), State::invalid);
  EXPECT_EQ(read(record(message(extension(0, "")))).state(), State::invalid);
  EXPECT_EQ(read(record(message(extension(0, field(one, 2) + "x")))).state(), State::invalid);
  EXPECT_EQ(read(record(message(name, "x"))).state(), State::invalid);
  EXPECT_EQ(read(record(message(name) + message(name))).state(), State::invalid);
  EXPECT_EQ(read(record(message(extension(16, field(field("", 1), 2))))).state(), State::invalid);
}

TEST(ClientHello, SixteenKilobytesAreEnough) {
  const auto padded = [](std::size_t padding) {
    return message(server_name("a.b") + extension(21, std::string(padding, '\0')));
  };
  EXPECT_EQ(read(record(padded(16000))).state(), State::complete);
  const std::string large = padded(20000);
  EXPECT_EQ(read(record(large.substr(0, 16000)) + record(large.substr(16000))).state(), State::invalid);
  std::string drops;  // a record for each byte never completes
  for (int i = 0; i < 20000; ++i) drops += record(i == 0 ? "\x01" : std::string_view("\0", 1));
  EXPECT_EQ(read(drops, 100).state(), State::invalid);
}

TEST(ClientHello, OtherProtocolsAreSeenAtOnce) {
  EXPECT_EQ(read("S").state(), State::not_tls);
  EXPECT_EQ(read("GET / HTTP/1.1\r\n").state(), State::not_tls);
  EXPECT_EQ(read("\x16\x02").state(), State::not_tls);
  EXPECT_EQ(read(std::string("\x16\x03\x01\x00\x00", 5)).state(), State::invalid);
  EXPECT_EQ(read(record("\x02")).state(), State::invalid);
  EXPECT_EQ(read(record(message("").substr(0, 9)) + "\x17").state(), State::invalid);
  EXPECT_EQ(read("\x16\x03\x01\xff\xff").state(), State::invalid);
}

}  // namespace
}  // namespace space::netd
