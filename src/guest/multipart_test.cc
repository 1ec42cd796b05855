#include "guest/multipart.h"

#include <gtest/gtest.h>

namespace space::guest {
namespace {

struct Part {
  std::string name;
  std::string filename;
  std::string content;
  bool operator==(const Part&) const = default;
};

// Feeds `body` in pieces of `step` bytes; nullopt when it is malformed or does not end.
std::optional<std::vector<Part>> read(std::string_view boundary, std::string_view body, std::size_t step) {
  MultipartReader reader(boundary);
  std::vector<Part> parts;
  for (;;) {
    auto event = reader.next();
    if (!event) return std::nullopt;
    if (!*event) {
      if (body.empty()) return std::nullopt;
      reader.feed(as_bytes(body.substr(0, step)));
      body.remove_prefix(std::min(step, body.size()));
      continue;
    }
    switch ((*event)->kind) {
      case MultipartReader::Kind::part:
        parts.push_back({(*event)->name, (*event)->filename, ""});
        break;
      case MultipartReader::Kind::data:
        parts.back().content += (*event)->data;
        break;
      case MultipartReader::Kind::part_end:
        break;
      case MultipartReader::Kind::end:
        return parts;
    }
  }
}

constexpr std::string_view body =
    "preamble\r\n--B\r\n"
    "Content-Disposition: form-data; name=\"file\"; filename=\"/home/a b/\\\"q\\\".txt\"\r\n"
    "Content-Type: text/plain\r\n\r\n"
    "one\r\n--Bnot\r\n--\r\n"
    "\r\n--B\r\n\r\n"
    "no header"
    "\r\n--B\r\ncontent-disposition: form-data; name=file; filename=empty\r\n\r\n"
    "\r\n--B--\r\nepilogue";

TEST(Multipart, IsReadWhateverThePieces) {
  // "\r\n--Bnot" holds the delimiter, so a well-behaved sender would have chosen another: it is an error.
  EXPECT_FALSE(read("B", body, 4096));
  std::string fixed(body);
  fixed.replace(fixed.find("--Bnot"), 6, "-- Bnot");
  const std::vector<Part> expected = {{"file", "/home/a b/\"q\".txt", "one\r\n-- Bnot\r\n--\r\n"},
                                      {"", "", "no header"},
                                      {"file", "empty", ""}};
  for (const std::size_t step : {1U, 2U, 3U, 7U, 50U, 4096U})
    EXPECT_EQ(read("B", fixed, step), expected) << step;
}

TEST(Multipart, EndsTooEarlyOrIsMalformed) {
  EXPECT_FALSE(read("B", "", 10));
  EXPECT_FALSE(read("B", "--B\r\nContent-Disposition: x\r\n\r\nabc", 10));
  EXPECT_FALSE(read("B", "--BX", 10));
  EXPECT_FALSE(read("B", "--B\r\n" + std::string(20'000, 'h'), 1000));
  EXPECT_EQ(read("B", "--B--", 10), std::vector<Part>());
}

TEST(Multipart, BoundaryComesFromTheContentType) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data; charset=x; boundary=\"a;b\""), "a;b");
  EXPECT_FALSE(multipart_boundary("multipart/form-data"));
  EXPECT_FALSE(multipart_boundary("multipart/mixed; boundary=a"));
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'a')));
  EXPECT_EQ(field_parameter("form-data; name=\"a\"; filename=\"b\"", "filename"), "b");
  EXPECT_FALSE(field_parameter("form-data; name", "name"));
}

}  // namespace
}  // namespace space::guest
