#include "sandboxd/turnstile.h"

#include "net/test_loop.h"

namespace space {
namespace {

class TurnstileTest : public LoopTest {
 protected:
  // Waits for a place, notes its name, and keeps the place until told to go.
  static Task<void> come(Turnstile& turnstile, std::string name, std::string request,
                         std::vector<std::string>& entered, Event& go) {
    auto place = co_await turnstile.enter(soon(), std::move(request));
    EXPECT_TRUE(place.has_value());
    entered.push_back(name);
    co_await go.wait();
  }

  std::vector<std::string> entered_;
};

TEST_F(TurnstileTest, WhoComesForSomethingOfHisOwnDoesNotWaitBehindAHundredOfOneRequest) {
  Turnstile turnstile(executor(), 2);
  Event go(executor());
  for (int i = 0; i < 100; ++i)
    spawn(executor(), "child", come(turnstile, fmt::format("child {}", i), "fork", entered_, go));
  spawn(executor(), "one", come(turnstile, "one", "", entered_, go));
  spawn(executor(), "other", come(turnstile, "other", "another fork", entered_, go));
  run([&]() -> Task<void> {
    co_await settle();
    EXPECT_EQ(turnstile.waiting(), 100U);
    EXPECT_EQ(entered_, (std::vector<std::string>{"child 0", "child 1"}));
    go.notify_all();
    co_await settle();
    // The place that is left first goes to who came for himself; with none of the fork inside any more, or as
    // many as of the others, the first who came is next.
    EXPECT_EQ(entered_, (std::vector<std::string>{"child 0", "child 1", "one", "child 2"}));
    go.notify_all();
    co_await settle();
    EXPECT_EQ(entered_.size(), 6U);
    EXPECT_NE(std::ranges::find(entered_, "other"), entered_.end());
    for (int i = 0; i < 60; ++i) {
      go.notify_all();
      co_await settle();
    }
    EXPECT_EQ(entered_.size(), 102U) << "nobody is forgotten";
    EXPECT_FALSE(turnstile.busy());
  });
}

TEST_F(TurnstileTest, AlikeTheyPassInTheOrderInWhichTheyCame) {
  Turnstile turnstile(executor(), 1);
  Event go(executor());
  for (int i = 0; i < 5; ++i)
    spawn(executor(), "one", come(turnstile, std::to_string(i), i % 2 == 0 ? "" : "fork", entered_, go));
  run([&]() -> Task<void> {
    for (int i = 0; i < 6; ++i) {
      co_await settle();
      go.notify_all();
    }
    co_await settle();
    EXPECT_EQ(entered_, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  });
}

TEST_F(TurnstileTest, WhoGivesUpTakesNoPlace) {
  Turnstile turnstile(executor(), 1);
  run([&]() -> Task<void> {
    {
      const auto inside = co_await turnstile.enter(soon(), "fork");
      EXPECT_TRUE(inside.has_value());
      const auto late = co_await turnstile.enter(Deadline::after(Millis(5)), "fork");
      EXPECT_EQ(late.error().code, Code::deadline);
      EXPECT_EQ(turnstile.waiting(), 0U);
    }
    EXPECT_FALSE(turnstile.busy());
    EXPECT_TRUE((co_await turnstile.enter(soon(), "fork")).has_value());
  });
}

}  // namespace
}  // namespace space
