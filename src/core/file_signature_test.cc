#include "core/file_signature.h"

#include <gtest/gtest.h>

namespace space {
namespace {

constexpr std::string_view token = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";

TEST(FileSignature, IsTheOneTheSdkMakes) {
  const SignedFileRequest request{.path = "hello.txt", .username = "user"};
  EXPECT_EQ(sign(request, token), "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

TEST(FileSignature, FitsItsTokenAndNothingElse) {
  const SignedFileRequest plain{
      .path = "/a b/c", .username = "user", .signature = "", .expiration = "1700000000"};
  SignedFileRequest request = plain;
  request.signature = sign(plain, token);
  EXPECT_TRUE(FileSignature(request).made_with(token));
  EXPECT_FALSE(FileSignature(request).made_with("another token"));
  EXPECT_FALSE(FileSignature(request).made_with(""));
  for (const auto change : std::to_array<void (*)(SignedFileRequest&)>({
           [](SignedFileRequest& r) { r.path += "/"; },
           [](SignedFileRequest& r) { r.path.clear(); },
           [](SignedFileRequest& r) { r.operation = FileOperation::write; },
           [](SignedFileRequest& r) { r.username = "root"; },
           [](SignedFileRequest& r) { r.expiration = "1800000000"; },
           [](SignedFileRequest& r) { r.expiration.clear(); },
           [](SignedFileRequest& r) { r.signature.back() ^= 1; },
       })) {
    SignedFileRequest changed = request;
    change(changed);
    EXPECT_FALSE(FileSignature(changed).made_with(token));
  }
}

TEST(FileSignature, FormIsCheckedBeforeAnythingIsHashed) {
  SignedFileRequest request{.path = "x"};
  request.signature = sign(request, token);
  EXPECT_TRUE(FileSignature(request).well_formed());
  for (const std::string& bad : {std::string(), "v2_" + request.signature.substr(3), request.signature + "=",
                                 request.signature.substr(1), std::string(10'000, 'v')}) {
    SignedFileRequest changed = request;
    changed.signature = bad;
    EXPECT_FALSE(FileSignature(changed).well_formed()) << bad;
    EXPECT_FALSE(FileSignature(changed).made_with(token)) << bad;
  }
  request.expiration = std::string(21, '9');
  EXPECT_FALSE(FileSignature(request).well_formed());
}

TEST(FileSignature, Expires) {
  const auto expired = [](std::string expiration, std::int64_t now) {
    return has_expired({.path = "", .username = "", .signature = "", .expiration = std::move(expiration)},
                       now);
  };
  EXPECT_FALSE(expired("", 1'800'000'000));
  EXPECT_FALSE(expired("1700000000", 1'700'000'000));
  EXPECT_TRUE(expired("1700000000", 1'700'000'001));
  for (const char* bad : {"x", "1700000000x", "0x7fffffff", "-5", "99999999999999999999", " 1"})
    EXPECT_TRUE(expired(bad, 1)) << bad;
}

}  // namespace
}  // namespace space
