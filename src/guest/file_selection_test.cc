#include "guest/file_selection.h"

#include <gtest/gtest.h>

#include "guest/http_date.h"

namespace space::guest {
namespace {

constexpr std::int64_t modified = 784'111'777;  // Sun, 06 Nov 1994 08:49:37 GMT
const FileVersion file{.size = 1000, .etag = "\"v1\"", .modified = modified};

using Fields = std::vector<std::pair<std::string, std::string>>;

Selection ask(const Fields& fields, const FileVersion& version = file, std::string method = "GET") {
  http::RequestHead head{.method = std::move(method)};
  for (const auto& [name, value] : fields) head.fields.add(name, value);
  return select(head, version);
}
int status(const Fields& fields) {
  return ask(fields).status;
}
// "206 first+length", or the status.
std::string part(const std::string& range, const Fields& more = {}) {
  Fields fields = more;
  fields.emplace_back("Range", range);
  const Selection selection = ask(fields);
  if (selection.status != 206) return std::to_string(selection.status);
  return fmt::format("206 {}+{}", selection.first, selection.length);
}

TEST(HttpDate, ThreeFormsAndNoOther) {
  EXPECT_EQ(to_http_date(modified), "Sun, 06 Nov 1994 08:49:37 GMT");
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"})
    EXPECT_EQ(parse_http_date(text), modified) << text;
  for (const char* text : {"", "yesterday", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT x",
                           "Sun, 06 Nov 1994 25:49:37 GMT"})
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
}

TEST(FileSelection, Ranges) {
  EXPECT_EQ(part("bytes=0-99"), "206 0+100");
  EXPECT_EQ(part("bytes=900-"), "206 900+100");
  EXPECT_EQ(part("bytes=999-999"), "206 999+1");
  EXPECT_EQ(part("bytes=990-2000"), "206 990+10");
  EXPECT_EQ(part("bytes=-1"), "206 999+1");
  EXPECT_EQ(part("bytes=-5000"), "206 0+1000");
  EXPECT_EQ(part("BYTES= 10 - 19 "), "206 10+10");
  EXPECT_EQ(part("bytes=10-99999999999999999999999"), "206 10+990");
  for (const char* outside : {"bytes=1000-", "bytes=1000-2000", "bytes=-0", "bytes=99999999999999999999999-"})
    EXPECT_EQ(part(outside), "416") << outside;
  for (const char* ignored : {"bytes=", "bytes=x-", "bytes=5-4", "bytes=-", "bytes=1", "bytes=1-2-3",
                              "lines=1-2", "bytes 1-2", "bytes=+1-2", "bytes=0x1-2", "bytes=1-2,x"})
    EXPECT_EQ(part(ignored), "200") << ignored;
}

TEST(FileSelection, SeveralRanges) {
  EXPECT_EQ(part("bytes=0-1,5-6"), "200");
  EXPECT_EQ(part("bytes=0-1,2000-"), "206 0+2") << "only one of them exists";
  EXPECT_EQ(part("bytes=2000-,,3000-"), "416");
  std::string many = "bytes=2000-";
  for (int i = 0; i < 100; ++i) many += ",2000-";
  EXPECT_EQ(part(many), "200");
}

TEST(FileSelection, RangesThatDoNotApply) {
  EXPECT_EQ(ask({{"Range", "bytes=0-1"}}, {.size = 0, .etag = "", .modified = {}}).status, 200) << "empty";
  EXPECT_EQ(ask({{"Range", "bytes=0-1"}}, {.size = {}, .etag = "", .modified = {}}).status, 200)
      << "unknown size";
  EXPECT_EQ(ask({{"Range", "bytes=0-1"}}, file, "HEAD").status, 200);
}

TEST(FileSelection, IfRange) {
  EXPECT_EQ(part("bytes=0-1", {{"If-Range", "\"v1\""}}), "206 0+2");
  EXPECT_EQ(part("bytes=0-1", {{"If-Range", to_http_date(modified)}}), "206 0+2");
  for (const std::string& other : {std::string("\"v2\""), std::string("W/\"v1\""), std::string("*"),
                                   std::string("v1"), to_http_date(modified + 1), to_http_date(modified - 1)})
    EXPECT_EQ(part("bytes=0-1", {{"If-Range", other}}), "200") << other;
  http::RequestHead head{.method = "GET"};
  head.fields.add("Range", "bytes=0-1");
  head.fields.add("If-Range", "W/\"v1\"");
  EXPECT_EQ(select(head, {.size = 1000, .etag = "W/\"v1\"", .modified = {}}).status, 200)
      << "weak never fits";
}

TEST(FileSelection, Conditions) {
  const std::string same = to_http_date(modified);
  const std::string before = to_http_date(modified - 1);
  EXPECT_EQ(status({{"If-None-Match", "\"v1\""}}), 304);
  EXPECT_EQ(status({{"If-None-Match", "\"v0\", W/\"v1\""}}), 304);
  EXPECT_EQ(status({{"If-None-Match", "*"}}), 304);
  EXPECT_EQ(status({{"If-None-Match", "\"v2\""}}), 200);
  EXPECT_EQ(status({{"If-None-Match", "v1"}}), 200) << "no entity tag";
  EXPECT_EQ(status({{"If-Modified-Since", same}}), 304);
  EXPECT_EQ(status({{"If-Modified-Since", before}}), 200);
  EXPECT_EQ(status({{"If-Modified-Since", "rubbish"}}), 200);
  EXPECT_EQ(status({{"If-None-Match", "\"v2\""}, {"If-Modified-Since", same}}), 200) << "the tag decides";
  EXPECT_EQ(status({{"If-Match", "\"v1\""}}), 200);
  EXPECT_EQ(status({{"If-Match", "*"}}), 200);
  EXPECT_EQ(status({{"If-Match", "\"v2\""}}), 412);
  EXPECT_EQ(status({{"If-Match", "W/\"v1\""}}), 412);
  EXPECT_EQ(status({{"If-Unmodified-Since", same}}), 200);
  EXPECT_EQ(status({{"If-Unmodified-Since", before}}), 412);
  EXPECT_EQ(status({{"If-Match", "\"v1\""}, {"If-Unmodified-Since", before}}), 200);
  EXPECT_EQ(part("bytes=0-1", {{"If-None-Match", "\"v1\""}}), "304") << "before the range";
  const FileVersion nothing_known{.size = 10, .etag = "", .modified = {}};
  EXPECT_EQ(ask({{"If-None-Match", "\"\""}}, nothing_known).status, 200);
  EXPECT_EQ(ask({{"If-Match", "\"x\""}}, nothing_known).status, 412);
  EXPECT_EQ(ask({{"If-Modified-Since", same}}, nothing_known).status, 200);
}

TEST(FileSelection, Codings) {
  const auto coding = [](const char* field) { return choose_coding(field); };
  EXPECT_EQ(choose_coding(std::nullopt), Coding::identity);
  for (const char* offered :
       {"", "*", "gzip, deflate", "br, gzip, deflate", "gzip, deflate, br, zstd", "deflate", "gzip;q=0",
        "identity", "gzip, identity", "gzip;q=0.5, identity;q=0.6", "gzip;q=x"})
    EXPECT_EQ(coding(offered), Coding::identity) << offered;
  for (const char* asked :
       {"gzip", "GZIP", "x-gzip", "gzip;q=0.1", "gzip, identity;q=0.5", "gzip;q=0.8, *;q=0.1",
        "gzip; q=1.0 , identity; Q=0.999", "gzip, deflate, identity;q=0.5"})
    EXPECT_EQ(coding(asked), Coding::gzip) << asked;
  for (const char* only : {"gzip, identity;q=0", "gzip, *;q=0", "*, identity;q=0.000"})
    EXPECT_EQ(coding(only), Coding::gzip_only) << only;
  for (const char* none : {"identity;q=0", "*;q=0", "deflate, identity;q=0", "gzip;q=0, *;q=0"})
    EXPECT_EQ(coding(none), Coding::none) << none;
}

TEST(FileSelection, CodingAndTheRest) {
  EXPECT_TRUE(ask({{"Accept-Encoding", "gzip"}}).gzip);
  EXPECT_FALSE(ask({{"Accept-Encoding", "gzip"}, {"Range", "bytes=0-1"}}).gzip);
  EXPECT_FALSE(ask({{"Accept-Encoding", "gzip"}, {"If-None-Match", "\"v2\""}}).gzip);
  const Selection only = ask({{"Accept-Encoding", "gzip, identity;q=0"}, {"Range", "bytes=0-1"}});
  EXPECT_TRUE(only.gzip);
  EXPECT_EQ(only.status, 200);
  EXPECT_EQ(status({{"Accept-Encoding", "identity;q=0"}}), 406);
}

TEST(FileSelection, TagsAreStrongOnceTheyCannotComeAgain) {
  struct stat status{};
  status.st_ctim = {.tv_sec = 1000, .tv_nsec = 5};
  status.st_size = 7;
  const std::string fresh = etag_of(status, {.tv_sec = 1000, .tv_nsec = 6});
  const std::string settled = etag_of(status, {.tv_sec = 1001, .tv_nsec = 0});
  EXPECT_EQ(fresh, "W/" + settled);
  status.st_size = 8;
  EXPECT_NE(etag_of(status, {.tv_sec = 1001, .tv_nsec = 0}), settled);
}

}  // namespace
}  // namespace space::guest
