#include "control/egress_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/create_request.h"
#include "control/egress_json.h"
#include "control/network_options.h"

namespace space::control {
namespace {

using testing::HasSubstr;

// The policy of a create, as JSON text; or the error's message.
std::string created(std::string_view members, EgressMode by_default = EgressMode::allow_all,
                    EgressRights rights = {}) {
  const auto request =
      parse_create_request(R"({"templateID":"b")" + std::string(members) + "}", ApiVersion::v2, 3600, rights);
  return request ? to_text(to_json(egress_of(request->egress, by_default))) : request.error().message;
}

TEST(EgressRequest, WithoutAWishTheOperatorsWordCounts) {
  for (const char* silent :
       {"", R"(,"network":{})", R"(,"network":{"allowOut":[],"denyOut":[]})", R"(,"network":null)",
        R"(,"allow_internet_access":true)", R"(,"allow_internet_access":null)",
        R"(,"network":{"allowPublicTraffic":true},"allow_internet_access":true)", R"(,"egress":null)"}) {
    EXPECT_EQ(created(silent), R"({"mode":"allow_all"})") << silent;
    EXPECT_EQ(created(silent, EgressMode::restricted), R"({"mode":"restricted"})") << silent;
    EXPECT_EQ(created(silent, EgressMode::deny_all), R"({"mode":"deny_all"})") << silent;
  }
}

TEST(EgressRequest, WhatE2bSaysOfIt) {
  EXPECT_EQ(created(R"(,"allow_internet_access":false)"),
            R"({"mode":"deny_all","allow_first":true,"pinned":false})");
  EXPECT_EQ(
      created(R"(,"network":{"denyOut":["0.0.0.0/0"],"allowOut":["api.example.com","1.1.1.1"]})"),
      R"({"mode":"restricted","allow":["api.example.com","1.1.1.1"],"allow_first":true,"pinned":false})");
  EXPECT_EQ(created(R"(,"network":{"denyOut":["8.8.8.8"]})"),
            R"({"mode":"allow_all","deny":["8.8.8.8"],"allow_first":true,"pinned":false})");
}

// A list of exceptions from an open network opens nothing where the operator closed it.
TEST(EgressRequest, ExceptionsStandOnTheOperatorsWord) {
  for (const EgressMode closed : {EgressMode::restricted, EgressMode::deny_all}) {
    EXPECT_THAT(created(R"(,"network":{"denyOut":["8.8.8.8"]})", closed),
                HasSubstr(R"("mode":"restricted")"));
    EXPECT_THAT(created(R"(,"network":{"allowOut":["8.8.8.8"]})", closed),
                HasSubstr(R"("mode":"restricted","allow":["8.8.8.8"])"));
    // These say it in words.
    EXPECT_THAT(created(R"(,"network":{"allowOut":["0.0.0.0/0"]})", closed), HasSubstr("allow_all"));
    EXPECT_EQ(created(R"(,"egress":{"mode":"allow_all"})", closed), R"({"mode":"allow_all"})");
  }
}

TEST(EgressRequest, OursOrE2bsNotBoth) {
  EXPECT_EQ(created(R"(,"egress":{"mode":"restricted","allow":["pypi.org"]},"allow_internet_access":true)"),
            R"({"mode":"restricted","allow":["pypi.org"]})");
  for (const char* both : {R"(,"allow_internet_access":false)", R"(,"network":{"denyOut":["8.8.8.8"]})"})
    EXPECT_THAT(created(R"(,"egress":{"mode":"deny_all"})" + std::string(both)),
                HasSubstr("Give one of the two"));
  EXPECT_THAT(created(R"(,"egress":{"mode":"restricted","allow":["*.com"]})"),
              HasSubstr("'egress': allow rule '*.com' is too broad"));
  EXPECT_THAT(
      created(R"(,"egress":{"mode":"restricted","allow":["*.com"]})", EgressMode::allow_all, {.force = true}),
      HasSubstr("*.com"));
  EXPECT_THAT(created(R"(,"egress":{"mode":"allow_all","internal":["10.0.0.0/8"]})"),
              HasSubstr("only an administrator"));
  EXPECT_EQ(created(R"(,"egress":{"mode":"allow_all","internal":["10.0.0.0/8"]})", EgressMode::allow_all,
                    {.may_internal = true}),
            R"({"mode":"allow_all","internal":["10.0.0.0/8"]})");
}

TEST(NetworkChange, Replaces) {
  const auto change = parse_network_change(R"({"denyOut":["0.0.0.0/0"],"allowOut":["a.example.com"]})");
  ASSERT_TRUE(change) << change.error().message;
  EXPECT_EQ(change->wish.policy->mode, EgressMode::restricted);
  const std::string before = R"({"allowOut":["9.9.9.9"],"allowPublicTraffic":false,"maskRequestHost":"h"})";
  EXPECT_EQ(*parse_json(changed_network(before, change->lists)),
            *parse_json(R"({"denyOut":["0.0.0.0/0"],"allowOut":["a.example.com"],"allowPublicTraffic":false,
                            "maskRequestHost":"h"})"));
  for (const char* empty : {"", "{}", R"({"allowOut":[]})", R"({"allow_internet_access":true})"})
    EXPECT_FALSE(parse_network_change(empty)->wish.policy) << empty;
  EXPECT_EQ(changed_network("", JsonObject()), "");
  for (const char* wrong :
       {"[", R"({"allowOut":"x"})", R"({"denyOut":["example.com"]})", R"({"allowOut":["example.com"]})",
        R"({"rules":{"a.example":[{"transform":{"headers":{"A":"b"}}}]}})",
        R"({"egressProxy":{"address":"h:1"}})", R"({"allow_internet_access":"no"})"})
    EXPECT_FALSE(parse_network_change(wrong)) << wrong;
}

std::string edit_of(std::string_view before, std::string_view body, EgressRights rights = {}) {
  const auto edit = parse_egress_edit(body);
  if (!edit) return edit.error().message;
  const auto policy = edited(*policy_of({std::string(before), 1}), *edit, rights);
  return policy ? to_text(to_json(*policy)) : policy.error().message;
}

TEST(EgressEdit, AddsAndRemovesRules) {
  const char* const some = R"({"mode":"restricted","allow":["a.example.com","b.example.com:22 tcp"]})";
  EXPECT_EQ(edit_of(some, R"({"allow":["c.example.com","A.example.com"],"remove":["b.example.com:22 tcp"]})"),
            R"({"mode":"restricted","allow":["a.example.com","c.example.com"]})");
  EXPECT_EQ(
      edit_of(some,
              R"({"deny":[{"cidr":"192.0.9.0/24"}],"remove":["A.EXAMPLE.com","b.example.com:22 tcp"]})"),
      R"({"mode":"restricted","deny":["192.0.9.0/24"]})");
  EXPECT_THAT(edit_of(some, R"({"remove":["d.example.com"]})"),
              HasSubstr("no rule 'd.example.com' to remove"));
  EXPECT_THAT(edit_of(some, R"({"remove":["d.example.com\u0007"]})"), HasSubstr("to remove"));
  EXPECT_THAT(edit_of(some, R"({"deny":["*.example.com"]})"), HasSubstr("contradicts deny rule"));
  EXPECT_THAT(edit_of(some, R"({"allow":["*.com"]})"), HasSubstr("too broad"));
  EXPECT_THAT(edit_of(some, R"({"allow":["*.com"]})", {.force = true}), HasSubstr("*.com"));
  EXPECT_THAT(edit_of(some, R"({"allow":["10.0.0.1/24"]})"), HasSubstr("10.0.0.0/24"));
}

TEST(EgressEdit, WhatIsThereMayStay) {
  const char* const broad = R"({"mode":"restricted","allow":["*.com"],"internal":["10.0.0.0/8"]})";
  EXPECT_EQ(
      edit_of(broad, R"({"allow":["a.example.org","10.1.0.0/16"]})"),
      R"({"mode":"restricted","allow":["*.com","a.example.org","10.1.0.0/16"],"internal":["10.0.0.0/8"]})");
  EXPECT_THAT(edit_of(broad, R"({"allow":["*.net"]})"), HasSubstr("too broad"));
  EXPECT_THAT(edit_of(R"({"mode":"restricted"})", R"({"allow":["10.1.0.0/16"]})"), HasSubstr("closed"));
}

TEST(EgressEdit, ModesAndEmptyBodies) {
  EXPECT_EQ(edit_of(R"({"mode":"deny_all"})", R"({"allow":["pypi.org"]})"),
            R"({"mode":"restricted","allow":["pypi.org"]})");
  EXPECT_EQ(edit_of(R"({"mode":"allow_all"})", R"({"deny":["pypi.org"]})"),
            R"({"mode":"allow_all","deny":["pypi.org"]})");
  EXPECT_THAT(edit_of(R"({"mode":"allow_all"})", R"({"allow":["pypi.org"]})"), HasSubstr("means nothing"));
  EXPECT_THAT(edit_of(R"({"mode":"allow_all"})", "{}"), HasSubstr("nothing to change"));
  EXPECT_THAT(edit_of(R"({"mode":"allow_all"})", R"({"alow":[]})"), HasSubstr("'alow' is none of"));
  for (const char* wrong : {"", "[]", R"({"allow":"x"})", R"({"remove":[1]})"})
    EXPECT_FALSE(parse_egress_edit(wrong)) << wrong;
}

TEST(EgressTest, AUrlOrAHostAndAPort) {
  EXPECT_EQ(to_text(*parse_egress_test(R"({"url":"https://a.example/x"})")),
            R"({"url":"https://a.example/x"})");
  EXPECT_EQ(to_text(*parse_egress_test(R"({"host":"a.example","port":22})")),
            R"({"host":"a.example","port":22})");
  EXPECT_EQ(to_text(*parse_egress_test(R"({"host":"2001:db8::1","port":22})")),
            R"({"host":"[2001:db8::1]","port":22})");
  EXPECT_EQ(to_text(*parse_egress_test(R"({"host":"[::1]","port":22})")), R"({"host":"[::1]","port":22})");
  for (const char* wrong :
       {"", "{}", R"({"url":"x","host":"y"})", R"({"host":"a"})", R"({"host":"a","port":0})"})
    EXPECT_FALSE(parse_egress_test(wrong)) << wrong;
  EXPECT_FALSE(parse_egress_test(R"({"url":")" + std::string(3000, 'x') + "\"}"));
}

TEST(EgressLogQuery, AsTheNodeTakesIt) {
  EXPECT_EQ(to_text(*parse_egress_log_query("after=7&limit=50&wait=15&other=1")),
            R"({"after":7,"limit":50,"wait_ms":15000})");
  EXPECT_EQ(to_text(*parse_egress_log_query("")), "{}");
  for (const char* wrong : {"after=-1", "after=x", "limit=0", "limit=1001", "wait=21", "wait=1.5"})
    EXPECT_FALSE(parse_egress_log_query(wrong)) << wrong;
}

TEST(EgressJson, WhatTheNodeSaysIsCheckedAndMadeAnew) {
  const store::Egress egress{R"({"mode":"deny_all"})", 4};
  const auto parsed = [](const char* text) { return *parse_json_object(text, "test"); };
  const JsonObject stats = parsed(
      R"({"flows":1,"flows_total":2,"denied_total":3,"bytes_in":4,"bytes_out":5,"dns_queries":6,
          "dns_refused":7,"by_reason":{"deny_mode":3},"more":1})");
  const auto whole = egress_json(egress, parsed(R"({"network":{"state":"ok","reason":"","x":1}})"), stats);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(to_text(*whole),
            R"({"policy":{"mode":"deny_all"},"generation":4,"network":{"state":"ok","reason":""},)"
            R"("counters":{"flows":1,"flows_total":2,"denied_total":3,"bytes_in":4,"bytes_out":5,)"
            R"("dns_queries":6,"dns_refused":7,"by_reason":{"deny_mode":3}}})");
  EXPECT_TRUE(egress_json(egress, {}, {})->at("counters").is_null());
  EXPECT_TRUE(egress_json(egress, {}, {})->at("network").is_null());
  EXPECT_FALSE(egress_json(egress, parsed(R"({"network":{"state":"<b>","reason":""}})"), {}));
  EXPECT_FALSE(egress_json(egress, {}, parsed(R"({"flows":-1})")));
}

TEST(EgressJson, EntriesOfTheLog) {
  const auto parsed = [](const std::string& text) { return *parse_json_object(text, "test"); };
  const std::string entry =
      R"({"sequence":9,"at":"2026-11-30T18:00:00Z","kind":"http","host":"a.example","address":"192.0.9.1",)"
      R"("port":80,"method":"GET","path":"/x","allowed":true,"reason":"allow_rule","rule":"a.example",)"
      R"("bytes_in":5,"bytes_out":6,"generation":2})";
  const auto log = egress_log_json(parsed(R"({"entries":[)" + entry + R"(],"next":9,"gap":true})"));
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(to_text(*log), R"({"entries":[)" + entry + R"(],"next":9,"gap":true})");
  EXPECT_FALSE(egress_log_json(parsed(R"({"entries":[{"sequence":1}],"next":1})")));
  EXPECT_FALSE(egress_log_json(parsed(R"({"entries":[1],"next":1})")));
  EXPECT_FALSE(egress_log_json(parsed(R"({"entries":[]})")));
  const auto test = egress_test_json(parsed(
      R"({"allowed":false,"reason":"deny_mode","rule":"","explanation":"no rule","host":"h","port":443,)"
      R"("addresses":[],"generation":3,"x":1})"));
  ASSERT_TRUE(test) << test.error().message;
  EXPECT_EQ(
      to_text(*test),
      R"({"allowed":false,"reason":"deny_mode","rule":"","explanation":"no rule","host":"h","port":443,)"
      R"("addresses":[],"generation":3})");
  EXPECT_FALSE(egress_test_json(parsed(R"({"allowed":false,"reason":"Nope!","port":1,"generation":1})")));
}

}  // namespace
}  // namespace space::control
