#include "net/task.h"

#include <thread>

#include "net/test_loop.h"

namespace space {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class TaskTest : public LoopTest {};

Task<Result<int>> number(int value) {
  co_return value;
}
Task<Result<int>> failure() {
  co_return fail(Code::not_found, "nothing there");
}

// Waits far longer than any test; notes when it is unwound.
Task<Result<int>> forever(std::shared_ptr<bool> unwound) {
  struct Note {
    std::shared_ptr<bool> flag;
    ~Note() { *flag = true; }
  };
  const Note note{unwound};
  while (true) co_await sleep_for(hours(24));
}

TEST_F(TaskTest, DeadlinePassesResultsThrough) {
  run([]() -> Task<void> {
    EXPECT_EQ(*co_await with_deadline(number(7), soon(), "x"), 7);
    EXPECT_EQ((co_await with_deadline(failure(), soon(), "x")).error().code, Code::not_found);
  });
}

TEST_F(TaskTest, DeadlineUnwindsTheTaskEvenOutOfALoop) {
  run([]() -> Task<void> {
    auto unwound = std::make_shared<bool>(false);
    const auto result =
        co_await with_deadline(forever(unwound), Deadline::after(milliseconds(5)), "the wait");
    EXPECT_EQ(result.error().code, Code::deadline);
    EXPECT_EQ(result.error().message, "the wait took longer than 5 ms");
    EXPECT_TRUE(*unwound);
  });
}

TEST_F(TaskTest, PassedDeadlineStillEndsPromptly) {
  run([]() -> Task<void> {
    auto unwound = std::make_shared<bool>(false);
    const auto past = Deadline::after(milliseconds(-1000));
    EXPECT_EQ((co_await with_deadline(forever(unwound), past, "x")).error().code, Code::deadline);
    EXPECT_EQ(*co_await with_deadline(number(1), past, "x"), 1);  // needs no wait
  });
}

Task<Result<int>> nested(std::shared_ptr<bool> unwound) {
  co_return co_await with_deadline(forever(unwound), Deadline::after(hours(1)), "inner");
}

TEST_F(TaskTest, OuterDeadlineReachesThroughAnInnerOne) {
  run([]() -> Task<void> {
    auto unwound = std::make_shared<bool>(false);
    const auto result = co_await with_deadline(nested(unwound), Deadline::after(milliseconds(5)), "outer");
    EXPECT_EQ(result.error().message, "outer took longer than 5 ms");
    EXPECT_TRUE(*unwound);
  });
}

Task<Result<int>> wait_for_event(std::shared_ptr<Event> event, std::shared_ptr<int> woken) {
  co_await event->wait();
  co_return ++*woken;
}

TEST_F(TaskTest, DeadlineReachesAnEvent) {
  run([this]() -> Task<void> {
    auto event = std::make_shared<Event>(executor());
    auto woken = std::make_shared<int>(0);
    const auto result =
        co_await with_deadline(wait_for_event(event, woken), Deadline::after(milliseconds(5)), "event");
    EXPECT_EQ(result.error().code, Code::deadline);
  });
}

Task<void> count_wakeups(std::shared_ptr<Event> event, std::shared_ptr<int> count) {
  co_await event->wait();
  ++*count;
}

TEST_F(TaskTest, EventWakesEveryWaiterOnceAndLaterOnesNotAtAll) {
  run([this]() -> Task<void> {
    auto event = std::make_shared<Event>(executor());
    auto first = std::make_shared<int>(0);
    auto late = std::make_shared<int>(0);
    for (int i = 0; i < 3; ++i) spawn(executor(), "waiter", count_wakeups(event, first));
    co_await settle();
    EXPECT_EQ(*first, 0);
    event->notify_all();
    spawn(executor(), "late waiter", count_wakeups(event, late));
    co_await settle();
    EXPECT_EQ(*first, 3);
    EXPECT_EQ(*late, 0);
    event->notify_all();
    co_await settle();
    EXPECT_EQ(*late, 1);
  });
}

Task<void> notify_later(std::shared_ptr<Event> event) {
  co_await sleep_for(milliseconds(1));
  event->notify_all();
}

TEST_F(TaskTest, EventWithDeadlineTellsWhichCameFirst) {
  run([this]() -> Task<void> {
    auto event = std::make_shared<Event>(executor());
    EXPECT_FALSE(co_await event->wait(Deadline::after(milliseconds(2))));
    spawn(executor(), "notifier", notify_later(event));
    EXPECT_TRUE(co_await event->wait(soon()));
  });
}

TEST_F(TaskTest, DestroyedEventReleasesItsWaiters) {
  run([this]() -> Task<void> {
    auto count = std::make_shared<int>(0);
    auto event = std::make_unique<Event>(executor());
    spawn(executor(), "waiter", [](Event* e, std::shared_ptr<int> c) -> Task<void> {
      co_await e->wait();
      ++*c;
    }(event.get(), count));
    co_await settle();
    event.reset();
    co_await settle();
    EXPECT_EQ(*count, 1);
  });
}

TEST_F(TaskTest, BlockingWorkRunsElsewhereAndComesBack) {
  run([]() -> Task<void> {
    const auto loop = std::this_thread::get_id();
    const auto pool = co_await run_blocking([] { return std::this_thread::get_id(); });
    EXPECT_NE(pool, loop);
    EXPECT_EQ(std::this_thread::get_id(), loop);
    const auto text = co_await run_blocking([]() -> Result<std::string> { return "done"; });
    EXPECT_EQ(*text, "done");
    bool ran = false;
    co_await run_blocking([&ran] { ran = true; });
    EXPECT_TRUE(ran);
  });
}

Task<Result<int>> slow_work(std::shared_ptr<std::atomic<bool>> done) {
  co_await run_blocking([done] {
    std::this_thread::sleep_for(milliseconds(30));
    *done = true;
  });
  co_return 1;
}

TEST_F(TaskTest, CancelledBlockingWorkIsWaitedFor) {
  run([]() -> Task<void> {
    auto done = std::make_shared<std::atomic<bool>>(false);
    const auto result = co_await with_deadline(slow_work(done), Deadline::after(milliseconds(1)), "work");
    EXPECT_TRUE(*done);
    EXPECT_TRUE(result || result.error().code == Code::deadline);
  });
}

TEST(TaskDeath, EscapedExceptionAborts) {
  EXPECT_DEATH(
      {
        boost::asio::io_context loop;
        spawn(loop.get_executor(), "faulty", []() -> Task<void> {
          throw std::runtime_error("bug");
          co_return;
        }());
        loop.run();
      },
      "task failed.*faulty.*bug");
}

TEST(Task, LoopWaitsForBlockingWorkWhenItEnds) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  {
    boost::asio::io_context loop;
    spawn(loop.get_executor(), "work", [](std::shared_ptr<std::atomic<bool>> flag) -> Task<void> {
      (void)co_await slow_work(flag);
    }(done));
    loop.poll();
  }
  EXPECT_TRUE(*done);
}

}  // namespace
}  // namespace space
