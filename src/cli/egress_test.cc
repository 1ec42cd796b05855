// What `space egress` draws, and the policies that flags describe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/egress_text.h"

namespace space::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JsonObject object(std::string_view text) {
  return parse_json_object(text, "test").value();
}

TEST(EgressFlags, TheModeFollowsFromTheRules) {
  EXPECT_TRUE(egress_policy_of({}).empty());
  EXPECT_EQ(to_text(egress_policy_of({.allow = {"pypi.org"}})),
            R"({"mode":"restricted","allow":["pypi.org"]})");
  EXPECT_EQ(to_text(egress_policy_of({.deny = {"a.example"}})),
            R"({"mode":"allow_all","deny":["a.example"]})");
  EXPECT_EQ(to_text(egress_policy_of({.mode = "deny_all"})), R"({"mode":"deny_all"})");
  EXPECT_EQ(
      to_text(egress_policy_of({.mode = "restricted", .allow = {"a.example"}, .deny = {"b.a.example"}})),
      R"({"mode":"restricted","allow":["a.example"],"deny":["b.a.example"]})");
}

TEST(EgressShow, AllThereIs) {
  EXPECT_THAT(
      egress_lines(object(
          R"({"policy":{"mode":"restricted","allow":["pypi.org","*.example.com:443",{"host":"a.example","methods":["GET"]}],
              "deny":["192.0.9.0/24"],"allow_first":true,"pinned":false,"dns":{"mode":"synthetic"},
              "limits":{"conns":16}},
              "generation":3,"network":{"state":"repaired","reason":"its rules were put back"},
              "counters":{"flows":2,"flows_total":15,"denied_total":4,"bytes_in":1258291,"bytes_out":30720,
                          "dns_queries":20,"dns_refused":2,
                          "by_reason":{"allow_rule":13,"deny_port":1,"deny_mode":3}}})")),
      ElementsAre("mode         restricted: only what a rule allows",             //
                  "deny         192.0.9.0/24",                                    //
                  "allow        pypi.org",                                        //
                  "             *.example.com:443",                               //
                  "             {\"host\":\"a.example\",\"methods\":[\"GET\"]}",  //
                  "ways         allow beats deny; names count whatever address was dialled; each name has an "
                  "address of its own",
                  "limit        conns 16",                                                 //
                  "generation   3",                                                        //
                  "gateway      repaired: its rules were put back",                        //
                  "connections  2 live, 15 in all, 4 refused (deny_mode 3, deny_port 1)",  //
                  "traffic      1.2 MiB in, 30.0 KiB out",                                 //
                  "names        20 asked for, 2 refused"));
}

TEST(EgressShow, WithoutANode) {
  EXPECT_THAT(
      egress_lines(object(R"({"policy":{"mode":"deny_all"},"generation":0,"network":null,"counters":null})")),
      ElementsAre("mode         deny_all: nothing, names neither", "generation   0"));
  EXPECT_THAT(egress_lines(object("{}")), ElementsAre("generation   0"));
}

TEST(EgressTest, TheRuleThatDecides) {
  const JsonObject refused = object(
      R"({"allowed":false,"reason":"deny_mode","rule":"","explanation":"No rule allows it","host":"example.com",
          "port":443,"addresses":[],"generation":2})");
  EXPECT_THAT(egress_test_lines("https://example.com/", refused, false),
              ElementsAre("refused  https://example.com/", "reason   deny_mode: No rule allows it",
                          "rule     none", "to       example.com:443"));
  EXPECT_EQ(egress_test_lines("x", refused, true).front(), "\x1b[31mrefused\x1b[0m  x");
  const JsonObject allowed = object(
      R"({"allowed":true,"reason":"allow_rule","rule":"*.example.com:443","explanation":"","host":"a.example.com",
          "port":443,"addresses":["192.0.9.1","2001:db9::1"],"generation":2})");
  EXPECT_THAT(
      egress_test_lines("https://a.example.com/", allowed, false),
      ElementsAre("allowed  https://a.example.com/", "reason   allow_rule", "rule     *.example.com:443",
                  "to       a.example.com:443", "at       192.0.9.1 2001:db9::1"));
}

TEST(EgressLog, OneLineADecision) {
  const auto line = [](std::string_view more) {
    return egress_log_line(
        object(fmt::format(R"({{"sequence":1,"at":"2026-11-30T18:00:01.250Z","generation":2,{}}})", more)),
        false);
  };
  EXPECT_EQ(
      line(R"("kind":"dns","host":"pypi.org","address":"","port":53,"allowed":true,"reason":"allow_rule",
                    "rule":"pypi.org")"),
      "2026-11-30 18:00:01Z  allow  dns   pypi.org  allow_rule  by pypi.org");
  EXPECT_EQ(line(R"("kind":"tls","host":"pypi.org","address":"192.0.9.1","port":443,"allowed":true,
                    "reason":"allow_rule","rule":"pypi.org","bytes_in":12288,"bytes_out":3072)"),
            "2026-11-30 18:00:01Z  allow  tls   pypi.org:443 (192.0.9.1)  allow_rule  by pypi.org  "
            "ended: 12.0 KiB in, 3.0 KiB out");
  EXPECT_EQ(
      line(R"("kind":"http","host":"a.example","address":"192.0.9.1","port":80,"method":"GET","path":"/x",
                    "allowed":false,"reason":"deny_method","rule":"a.example http POST")"),
      "2026-11-30 18:00:01Z  deny   http  GET a.example:80/x (192.0.9.1)  deny_method  by a.example http "
      "POST");
  EXPECT_EQ(line(R"("kind":"tcp","host":"","address":"2001:db9::1","port":22,"allowed":false,
                    "reason":"deny_mode","rule":"","count":17)"),
            "2026-11-30 18:00:01Z  deny   tcp   [2001:db9::1]:22  deny_mode  x17");
  EXPECT_EQ(line(R"("kind":"policy","host":"","address":"","allowed":true,"reason":"allow_mode","rule":"")"),
            "2026-11-30 18:00:01Z  ----   policy  generation 2 is in force");
}

TEST(EgressLog, ColourAndWhatAGuestWroteInAName) {
  const JsonObject entry = object(
      R"({"at":"2026-11-30T18:00:01Z","kind":"dns","host":"a\u001b[2Jb","port":53,"allowed":false,
          "reason":"deny_bad_name","rule":""})");
  EXPECT_EQ(egress_log_line(entry, true),
            "2026-11-30 18:00:01Z  \x1b[31mdeny \x1b[0m  dns   a\\x1b[2Jb  deny_bad_name");
}

TEST(EgressNotice, SaysWhatIsOpenAndHowToChangeIt) {
  EXPECT_THAT(egress_notice(""), HasSubstr("reaches the whole internet, but no private address (allow_all)"));
  EXPECT_THAT(egress_notice("deny_all"), HasSubstr("reaches nothing (deny_all)"));
  EXPECT_THAT(egress_notice("restricted"), HasSubstr("egress_default in [network] of space.toml"));
}

}  // namespace
}  // namespace space::cli
