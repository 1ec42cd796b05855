#include <gtest/gtest.h>

#include <set>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/unix_address.h"

namespace space {
namespace {

static_assert(!fmt::is_formattable<SecretText>::value, "a secret can be formatted");
static_assert(!std::is_copy_constructible_v<SecretText>);

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::invalid_argument, "{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  SPACE_TRY(const int h, half(n));
  auto q = half(h);
  if (!q) return wrap(q.error(), "quarter");
  return q;
}

TEST(Result, ErrorsTravelUpWithContext) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(3).error().message, "3 is odd");
  EXPECT_EQ(quarter(6).error().message, "quarter: 3 is odd");
  EXPECT_EQ(fail_errno(ENOSPC, "write").error().code, Code::exhausted);
}

TEST(Ids, HaveTheirShapeAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = new_sandbox_id();
    EXPECT_TRUE(is_sandbox_id(id)) << id;
    EXPECT_TRUE(seen.insert(id).second);
  }
  for (const char* wrong : {"", "i", "iABCDEFGHIJKLMNOPQRS", "x1234567890123456789", "i123456789012345678/",
                            "i1234567890123456789x"})
    EXPECT_FALSE(is_sandbox_id(wrong)) << wrong;
  EXPECT_EQ(new_api_key().size(), 44U);
  EXPECT_EQ(new_token().size(), 32U);
}

TEST(Bytes, Base64RoundTripsAndRefusesGarbage) {
  for (std::size_t n = 0; n < 70; ++n) {
    const Bytes bytes = random_bytes(n);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
  EXPECT_EQ(to_base64(as_bytes("Ma")), "TWE=");
  EXPECT_EQ(as_text(*from_base64("TWE")), "Ma");
  for (const char* wrong : {"A", "T$E=", "====", "TWE=TWE="}) EXPECT_FALSE(from_base64(wrong)) << wrong;
}

TEST(Json, LimitsTypesAndDepth) {
  const auto object = *parse_json_object(R"({"n":5,"s":"x","b":true,"z":null,"f":1.5})", "request");
  EXPECT_EQ(**int_member(object, "n", 0, 10), 5);
  EXPECT_EQ(int_member(object, "n", 0, 4).error().message, "'n' must be between 0 and 4");
  EXPECT_FALSE(int_member(object, "s", 0, 9));
  EXPECT_FALSE(int_member(object, "f", 0, 9));
  EXPECT_FALSE(text_member(object, "z")->has_value());
  EXPECT_FALSE(require_text(object, "missing"));
  EXPECT_FALSE(parse_json(std::string(40, '[') + std::string(40, ']')));
  EXPECT_TRUE(parse_json(std::string(20, '[') + std::string(20, ']')));
  EXPECT_FALSE(parse_json("{} x"));
  EXPECT_FALSE(parse_json("\"\xff\""));
  EXPECT_FALSE(parse_json_object("[]", "request"));
}

TEST(JsonText, IsValidWhateverTheBytes) {
  std::string out;
  append_json_string(out, "a\"\\\n\x01\xff\xc3\xa9\xed\xa0\x80");
  EXPECT_TRUE(parse_json(out)) << out;
  EXPECT_EQ(out.substr(0, 17), "\"a\\\"\\\\\\n\\u0001\xEF\xBF\xBD");
}

TEST(Clock, FormatsRfc3339) {
  EXPECT_EQ(to_rfc3339(Wall(Millis(1'700'000'000'123))), "2023-11-14T22:13:20.123Z");
}

TEST(Clock, ParsesRfc3339) {
  const Wall time(Millis(1'700'000'000'123));
  for (const char* same :
       {"2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20.123999Z", "2023-11-15T00:13:20.123+02:00"})
    EXPECT_EQ(parse_rfc3339(same), time) << same;
  EXPECT_EQ(parse_rfc3339("2023-11-14T22:13:20Z"), Wall(Millis(1'700'000'000'000)));
  for (const char* wrong :
       {"", "2023-11-14", "2023-11-14T22:13:20", "2023-02-30T00:00:00Z", "2023-11-14T24:00:00Z",
        "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Zx", "x023-11-14T22:13:20Z"})
    EXPECT_FALSE(parse_rfc3339(wrong)) << wrong;
}

TEST(Deadline, CountsDownAndTightens) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(Millis(100), clock);
  EXPECT_EQ(deadline.left(clock), Millis(100));
  EXPECT_EQ(deadline.at_most(Millis(30), clock).left(clock), Millis(30));
  clock.advance(Millis(150));
  EXPECT_TRUE(deadline.passed(clock));
  EXPECT_EQ(deadline.left(clock), Millis(0));
}

TEST(Fd, FileIsReplacedWholeAndReadIsBounded) {
  char folder[] = "/tmp/space_base_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/f";
  ASSERT_TRUE(write_file_durably(path, "one", 0600));
  ASSERT_TRUE(write_file_durably(path, "two2", 0600));
  EXPECT_EQ(*read_file(path, 4), "two2");
  EXPECT_EQ(read_file(path, 3).error().code, Code::exhausted);
  EXPECT_EQ(read_file(path + "x", 3).error().code, Code::not_found);
  ASSERT_EQ(system((std::string("rm -r ") + folder).c_str()), 0);
}

TEST(UnixAddress, TakesWhatTheKernelTakes) {
  const std::string longest(107, 'a');
  EXPECT_STREQ(reinterpret_cast<const sockaddr_un*>(UnixAddress::of(longest)->get())->sun_path,
               longest.c_str());
  EXPECT_EQ(UnixAddress::of(longest + "a").error().code, Code::invalid_argument);
  EXPECT_EQ(UnixAddress::of("").error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace space
