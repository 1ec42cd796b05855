// The meter of one sandbox against a guest that is busy, idle, silent or lies.
#include "sandboxd/sandbox_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "base/bytes.h"
#include "sandboxd/vmm_usage.h"

namespace space {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

class SandboxMeterTest : public testing::Test {
 protected:
  // What the guest is and says.
  std::vector<std::string> asked_;
  std::optional<std::string> answer_ = R"({"cpu_count":1,"mem_total":512,"activity":{"cpu_used_us":5}})";
  bool hangs_ = false;
  bool answers_ = true;
  int under_way_ = 0;
  int most_under_way_ = 0;
  int ticks_ = 0;
  std::vector<std::optional<Wall>> wakes_;

  SandboxMeter::Hooks hooks() {
    SandboxMeter::Hooks hooks;
    hooks.ask = [this](std::string call, Deadline deadline) { return ask(std::move(call), deadline); };
    hooks.answers = [this] { return answers_; };
    hooks.vmm_pid = [] { return ::getpid(); };
    hooks.tick = [this] { ++ticks_; };
    hooks.wake_at_changed = [this](std::optional<Wall> at) { wakes_.push_back(at); };
    return hooks;
  }
  Task<Result<JsonObject>> ask(std::string call, Deadline deadline) {
    asked_.push_back(call);
    most_under_way_ = std::max(most_under_way_, ++under_way_);
    if (hangs_) co_await sleep_until(deadline);
    --under_way_;
    if (hangs_ || !answer_) co_return fail(Code::deadline, "no answer");
    auto answer = parse_json_object(*answer_, "answer");
    if (answer && call == "activity") {
      if (const auto inner = object_member(*answer, "activity"); inner && *inner)
        co_return JsonObject(**inner);
    }
    co_return answer;
  }

  std::shared_ptr<SandboxMeter> make(SandboxMeter::Pace pace) {
    return std::make_shared<SandboxMeter>(loop_.get_executor(), hooks(), pace, std::nullopt);
  }
  template <class Condition>
  void pump_until(Condition condition) {
    const Deadline deadline = Deadline::after(30s);
    while (!condition()) {
      ASSERT_FALSE(deadline.passed()) << "gave up waiting";
      loop_.restart();
      loop_.run_one_for(10ms);
    }
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(loop_.get_executor(), "test", detail::store_result(std::move(task), &result));
    pump_until([&] { return result.has_value(); });
    return *std::move(result);
  }

  static constexpr SandboxMeter::Pace seldom{
      .rare = 1h, .eager = 1h, .eager_for = 1h, .fresh = 1h, .answer_limit = 50ms};
  boost::asio::io_context loop_;
};

TEST_F(SandboxMeterTest, ALookTakesOneSampleForAllWhoLook) {
  const auto meter = make(seldom);
  EXPECT_TRUE(meter->stats().at("sampled_at").is_null());
  std::optional<bool> first, second;
  spawn(loop_.get_executor(), "a", detail::store_result(meter->refresh(Deadline::after(5s)), &first));
  spawn(loop_.get_executor(), "b", detail::store_result(meter->refresh(Deadline::after(5s)), &second));
  pump_until([&] { return first && second; });
  EXPECT_TRUE(*first && *second);
  EXPECT_TRUE(run(meter->refresh(Deadline::after(5s))));
  EXPECT_THAT(asked_, testing::ElementsAre("stats"));
  const JsonObject stats = meter->stats();
  EXPECT_EQ(stats.at("mem_total"), 512);
  EXPECT_EQ(stats.at("user_cpu_used_us"), 5);
  EXPECT_TRUE(stats.at("sampled_at").is_string());
  EXPECT_GT(stats.at("vmm_rss").to_number<std::int64_t>(), 0);
}

TEST_F(SandboxMeterTest, SamplesComeByThemselvesOneAtATime) {
  const auto meter = make({.rare = 5ms, .eager = 5ms, .fresh = 0ms, .answer_limit = 40ms});
  hangs_ = true;
  meter->keep();
  pump_until([&] { return asked_.size() >= 3; });
  EXPECT_EQ(most_under_way_, 1);
  EXPECT_GE(ticks_, 3);
  meter->close();
  hangs_ = false;
  pump_until([&] { return under_way_ == 0; });
  const std::size_t before = asked_.size();
  loop_.run_for(50ms);
  EXPECT_EQ(asked_.size(), before);
}

TEST_F(SandboxMeterTest, ASilentGuestIsNotAskedAndKeepsItsLastSample) {
  const auto meter = make({.rare = 2ms, .eager = 2ms, .fresh = 0ms, .answer_limit = 40ms});
  ASSERT_TRUE(run(meter->refresh(Deadline::after(5s))) || !asked_.empty());
  answers_ = false;
  const std::size_t before = asked_.size();
  meter->keep();
  pump_until([&] { return ticks_ >= 3; });
  EXPECT_FALSE(run(meter->refresh(Deadline::after(5s))));
  EXPECT_EQ(asked_.size(), before);
  EXPECT_EQ(meter->stats().at("mem_total"), 512);
  meter->close();
}

TEST_F(SandboxMeterTest, WhatIsNoAnswerChangesNothing) {
  const auto meter = make(seldom);
  for (const char* hostile :
       {R"({"cpu_count":-1})", R"({"cpu_count":1e300})", R"({"mem_total":18446744073709551615})",
        R"({"activity":7})", R"({"activity":{"leases":{}}})", R"({"activity":{"leases":[7]}})",
        R"({"activity":{"leases":[{"name":"\u001b[2J","expires_in_ms":1}]}})",
        R"({"activity":{"leases":[{"name":"a","expires_in_ms":86400001}]}})",
        R"({"activity":{"wake_at_us":9223372036854775807}})"}) {
    answer_ = hostile;
    EXPECT_FALSE(run(meter->refresh(Deadline::after(5s)))) << hostile;
  }
  std::string many = R"({"activity":{"leases":[{"name":"a","expires_in_ms":1})";
  for (int i = 0; i < 64; ++i) many += R"(,{"name":"a","expires_in_ms":1})";
  answer_ = many + "]}}";
  EXPECT_FALSE(run(meter->refresh(Deadline::after(5s))));
  EXPECT_TRUE(meter->stats().at("sampled_at").is_null());
  EXPECT_THAT(wakes_, IsEmpty());
}

TEST_F(SandboxMeterTest, LeasesAndTheWakeUpAreReported) {
  const auto meter = make(seldom);
  answer_ =
      R"({"activity":{"leases":[{"name":"build","expires_in_ms":60000}],"wake_at_us":1900000000000000}})";
  ASSERT_TRUE(run(meter->refresh(Deadline::after(5s))));
  const JsonObject activity = meter->activity();
  EXPECT_EQ(activity.at("leases").as_array().at(0).at("name"), "build");
  EXPECT_EQ(activity.at("wake_at"), "2030-03-17T17:46:40.000Z");
  EXPECT_EQ(activity.at("idle_s"), 0);
  const JsonArray& reasons = activity.at("reasons").as_array();
  EXPECT_NE(std::ranges::find(reasons, Json("lease")), reasons.end());
  EXPECT_EQ(wakes_.size(), 1U);  // to be written down once
}

TEST_F(SandboxMeterTest, StreamsAndTheirBytesAreCounted) {
  const auto meter = make(seldom);
  auto [near, far] = make_stream_pair(loop_.get_executor());
  StreamPtr guest = meter->metered(std::move(near));
  EXPECT_EQ(meter->activity().at("streams"), 1U);
  const std::string up(300, 'u'), down(20, 'd');
  std::byte buffer[512];
  ASSERT_TRUE(run(guest->write(as_bytes(up))));
  ASSERT_TRUE(run(far->write(as_bytes(down))));
  EXPECT_EQ(run(guest->read(buffer)).value(), 20U);
  guest.reset();
  const JsonObject activity = meter->activity();
  EXPECT_EQ(activity.at("streams"), 0U);
  EXPECT_EQ(activity.at("bytes_in"), 300U);
  EXPECT_EQ(activity.at("bytes_out"), 20U);
}

TEST(VmmUsage, ReadsWhatTheKernelPrints) {
  const auto usage = parse_process_stat(
      "12 (qemu) ) x) S 1 2 3 0 -1 4194560 5 6 7 8 250 50 0 0 20 0 3 0 99 123456 777 18446744073709551615",
      100, 4096);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->cpu_us, 3'000'000U);
  EXPECT_EQ(usage->rss_bytes, 777U * 4096);
  for (const char* other : {"", "12", "12 (qemu) S 1 2", "no parenthesis at all"})
    EXPECT_FALSE(parse_process_stat(other, 100, 4096)) << other;
  EXPECT_FALSE(read_vmm_usage(0));
  ASSERT_TRUE(read_vmm_usage(::getpid()));
}

}  // namespace
}  // namespace space
