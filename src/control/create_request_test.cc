#include "control/create_request.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "control/lifetime.h"

namespace space::control {
namespace {

constexpr std::int64_t max_s = 24 * 3600;

Result<CreateRequest> parse(std::string_view body, ApiVersion version = ApiVersion::v2) {
  return parse_create_request(body, version, max_s);
}

std::string error_of(std::string_view body, ApiVersion version = ApiVersion::v2) {
  const auto parsed = parse(body, version);
  EXPECT_FALSE(parsed) << body;
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, Code::invalid_argument);
  return parsed.error().message;
}

TEST(CreateRequest, DefaultsDependOnTheVersion) {
  const auto v2 = parse(R"({"templateID":"base"})");
  ASSERT_TRUE(v2);
  EXPECT_EQ(v2->template_name, "base");
  EXPECT_EQ(v2->timeout_s, 300);
  EXPECT_TRUE(v2->secure);
  EXPECT_TRUE(v2->options.allow_public_traffic);
  EXPECT_FALSE(v2->options.allow_internet_access);
  const auto v1 = parse(R"({"templateID":"base"})", ApiVersion::v1);
  EXPECT_EQ(v1->timeout_s, 15);
  EXPECT_FALSE(v1->secure);
}

TEST(CreateRequest, WhatTheSdksSendByDefault) {
  const auto old_sdk = parse(R"({"templateID":"base","metadata":{"a":"b"},"envVars":{"K":"V=1"},"timeout":300,
    "secure":true,"allow_internet_access":true,"autoPause":false,"mcp":null})",
                             ApiVersion::v1);
  ASSERT_TRUE(old_sdk) << old_sdk.error().message;
  EXPECT_TRUE(old_sdk->secure);
  EXPECT_EQ(old_sdk->options.allow_internet_access, true);
  EXPECT_EQ(old_sdk->options.metadata.at("a"), "b");
  EXPECT_EQ(old_sdk->env.at("K").reveal(), "V=1");
  EXPECT_TRUE(parse(
      R"({"templateID":"base","volumeMounts":[],"network":{},"autoResume":{"enabled":false},"new":1})"));
}

TEST(CreateRequest, WrongTypesNameTheMember) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "'templateID' is missing"},
      {R"({"templateID":1})", "'templateID' must be a string"},
      {R"({"templateID":"b","timeout":"5"})", "'timeout' must be an integer"},
      {R"({"templateID":"b","timeout":1.5})", "'timeout' must be an integer"},
      {R"({"templateID":"b","metadata":[]})", "'metadata' must be an object"},
      {R"({"templateID":"b","metadata":{"k":1}})", "'metadata.k' must be a string"},
      {R"({"templateID":"b","envVars":{"k":null}})", "'envVars.k' must be a string"},
      {R"({"templateID":"b","secure":"yes"})", "'secure' must be true or false"},
      {R"({"templateID":"b","network":{"allowPublicTraffic":1}})",
       "'allowPublicTraffic' must be true or false"},
      {R"([])", "the request body must be a JSON object"},
  };
  for (const auto& [body, message] : cases) EXPECT_EQ(error_of(body), message) << body;
  EXPECT_TRUE(error_of("{").starts_with("the request body: malformed JSON"));
  EXPECT_TRUE(error_of("").starts_with("the request body: malformed JSON"));
}

TEST(CreateRequest, TimeoutBounds) {
  EXPECT_EQ(error_of(R"({"templateID":"b","timeout":0})"), "Timeout must be greater than 0");
  EXPECT_EQ(error_of(R"({"templateID":"b","timeout":-9223372036854775808})"),
            "'timeout' must be between "
            "-9223372036854775807 and 9223372036854775807");
  EXPECT_EQ(error_of(R"({"templateID":"b","timeout":86401})"), "Timeout cannot be greater than 24 hours");
  EXPECT_EQ(parse(R"({"templateID":"b","timeout":86400})")->timeout_s, 86400);
}

TEST(CreateRequest, RefusesWhatWouldSilentlyNotHappen) {
  for (const char* member :
       {R"("autoPauseMemory":false)", R"("volumeMounts":[{"name":"v","path":"/v"}])",
        R"("iam":{"tokens":{"a":{}}})", R"("network":{"rules":{"a.example":[]}})",
        R"("network":{"egressProxy":{"address":"h:1"}})", R"("network":{"httpsPorts":[443]})"})
    error_of(std::string(R"({"templateID":"b",)") + member + "}");
}

TEST(CreateRequest, LifecycleInBothForms) {
  const auto of = [](const std::string& members, ApiVersion version = ApiVersion::v2) {
    const auto parsed = parse(R"({"templateID":"b",)" + members + "}", version);
    EXPECT_TRUE(parsed) << members << ": " << parsed.error().message;
    return parsed->lifecycle;
  };
  for (const ApiVersion version : {ApiVersion::v1, ApiVersion::v2}) {
    EXPECT_FALSE(of(R"("autoPause":false)", version).pause_on_timeout);
    EXPECT_TRUE(of(R"("autoPause":true)", version).pause_on_timeout);
    EXPECT_TRUE(of(R"("autoPause":true)", version).pause_keeps_memory);
    EXPECT_FALSE(of(R"("autoPause":true)", version).auto_resume);
    EXPECT_TRUE(of(R"("autoPause":true,"autoResume":{"enabled":true})", version).auto_resume);
    EXPECT_FALSE(of(R"("autoPause":true,"autoPauseMemory":false)", version).pause_keeps_memory);
    EXPECT_TRUE(of(R"("lifecycle":{"onTimeout":"pause","autoResume":true})", version).pause_on_timeout);
    EXPECT_TRUE(of(R"("lifecycle":{"onTimeout":"pause","autoResume":true})", version).auto_resume);
    EXPECT_TRUE(of(R"("autoPause":null,"lifecycle":{"onTimeout":"pause"})", version).pause_on_timeout);
    EXPECT_FALSE(of(R"("lifecycle":{"onTimeout":"kill"},"autoPause":false)", version).pause_on_timeout);
  }
  error_of(R"({"templateID":"b","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}})");
  error_of(R"({"templateID":"b","autoPause":true,"lifecycle":{"onTimeout":"kill"}})");
  error_of(R"({"templateID":"b","autoResume":{"enabled":false},"lifecycle":{"autoResume":true}})");
  error_of(R"({"templateID":"b","lifecycle":{"onTimeout":"stop"}})");
  error_of(R"({"templateID":"b","autoPause":"yes"})");
}

TEST(CreateRequest, PausePolicy) {
  const auto parsed = parse(R"({"templateID":"b","pausePolicy":{"idlePauseSeconds":60}})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->policy, (store::PausePolicy{.idle_pause_s = 60, .hot_keep_s = std::nullopt}));
  const store::PausePolicy before{.idle_pause_s = 10, .hot_keep_s = 20};
  EXPECT_EQ(*parse_pause_policy("{}", before), before);
  EXPECT_EQ(*parse_pause_policy(R"({"idlePauseSeconds":null,"hotKeepSeconds":0})", before),
            (store::PausePolicy{.idle_pause_s = std::nullopt, .hot_keep_s = 0}));
  for (const char* wrong :
       {"", R"({"idlePauseSeconds":0})", R"({"idlePauseSeconds":"1"})", R"({"hotKeepSeconds":-1})"})
    EXPECT_FALSE(parse_pause_policy(wrong, before)) << wrong;
}

TEST(CreateRequest, NeverIsALife) {
  const auto never = parse_create_request(R"({"templateID":"b","timeout":"never"})", ApiVersion::v2, never_s);
  ASSERT_TRUE(never) << never.error().message;
  EXPECT_EQ(end_after(Wall(), never->timeout_s), never_ends);
  EXPECT_EQ(to_rfc3339(never_ends).substr(0, 19), "9999-12-31T23:59:59");
  EXPECT_EQ(
      parse_create_request(R"({"templateID":"b","timeout":9000000000000000000})", ApiVersion::v2, never_s)
          ->timeout_s,
      never_s);
  EXPECT_EQ(error_of(R"({"templateID":"b","timeout":"never"})"), "Timeout cannot be greater than 24 hours");
  EXPECT_EQ(error_of(R"({"templateID":"b","timeout":"ever"})"), "'timeout' must be an integer");
  EXPECT_EQ(*parse_timeout_request(R"({"timeout":"never"})"), never_s);
}

TEST(PauseRequest, OldClientsSendNothing) {
  EXPECT_TRUE(*parse_pause_request(""));
  EXPECT_TRUE(*parse_pause_request("{}"));
  EXPECT_TRUE(*parse_pause_request(R"({"memory":true})"));
  EXPECT_FALSE(*parse_pause_request(R"({"memory":false})"));
  EXPECT_FALSE(parse_pause_request(R"({"memory":0})"));
  EXPECT_FALSE(parse_pause_request("["));
}

TEST(CreateRequest, EnvironmentNamesAreNamesAndErrorsHoldNoValue) {
  for (const char* env :
       {R"({"":"sec-ret"})", R"({"A=B":"sec-ret"})", R"({"A\u0000":"sec-ret"})", R"({"A":"sec-ret\u0000"})"})
    EXPECT_FALSE(error_of(std::string(R"({"templateID":"b","envVars":)") + env + "}").contains("sec-ret"))
        << env;
  const std::string large(300 * 1024, 'x');
  EXPECT_EQ(error_of(R"({"templateID":"b","envVars":{"A":")" + large + "\"}}"),
            "'envVars' is larger than 256 KiB");
}

TEST(CreateRequest, Network) {
  const auto parsed = parse(R"({"templateID":"b","network":{"allowOut":["1.1.1.1","*.example.com"],
    "denyOut":["0.0.0.0/0"],"allowPublicTraffic":false,"maskRequestHost":"localhost:${PORT}"}})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE(parsed->options.allow_public_traffic);
  EXPECT_EQ(parsed->options.mask_request_host, "localhost:${PORT}");
  EXPECT_TRUE(parse_json(parsed->options.network));
  EXPECT_EQ(parsed->egress.policy->mode, EgressMode::restricted);
  for (const char* network :
       {R"({"denyOut":["example.com"]})", R"({"allowOut":["*"],"denyOut":["0.0.0.0/0"]})",
        R"({"allowOut":["example.com"]})", R"({"denyOut":["10.0.0.0/33"]})", R"({"denyOut":["10.0.0.0/"]})",
        R"({"denyOut":[5]})", R"({"maskRequestHost":"a b"})"})
    error_of(std::string(R"({"templateID":"b","network":)") + network + "}");
  EXPECT_TRUE(error_of(R"({"templateID":"b","network":{"allowPublicTraffic":false}})", ApiVersion::v1)
                  .contains("needs a secured sandbox"));
}

TEST(ConnectRequest, EmptyBodyAsksForTheDefault) {
  EXPECT_EQ(parse_connect_request("", ApiVersion::v2, max_s)->timeout_s, 300);
  EXPECT_EQ(parse_connect_request("", ApiVersion::v1, max_s)->timeout_s, 15);
  EXPECT_FALSE(parse_connect_request("", ApiVersion::v1, max_s)->boot);
  const auto reboot =
      parse_connect_request(R"({"timeout":60,"memory":false,"autoPause":true})", ApiVersion::v2, max_s);
  EXPECT_EQ(reboot->timeout_s, 60);
  EXPECT_TRUE(reboot->boot);
  EXPECT_TRUE(reboot->pause_on_timeout);
  EXPECT_FALSE(parse_connect_request(R"({"timeout":86401})", ApiVersion::v2, max_s));
  EXPECT_FALSE(parse_connect_request(R"({"memory":"no"})", ApiVersion::v2, max_s));
}

TEST(TimeoutRequest, NeedsAPositiveNumber) {
  EXPECT_EQ(*parse_timeout_request(R"({"timeout":1})"), 1);
  EXPECT_EQ(parse_timeout_request(R"({"timeout":0})").error().message, "Timeout must be greater than 0");
  EXPECT_FALSE(parse_timeout_request("{}"));
  EXPECT_FALSE(parse_timeout_request(""));
}

}  // namespace
}  // namespace space::control
