#include "core/lifecycle.h"

#include <gtest/gtest.h>

#include <set>

namespace space {
namespace {

// The compile-time proofs are in the header; here is what a reader would check against the design by hand.
TEST(Lifecycle, AStartEndsInRunningOrFailed) {
  EXPECT_EQ(after(State::creating, Change::start_done), State::running);
  EXPECT_EQ(after(State::creating, Change::start_failed), State::failed);
  EXPECT_EQ(after(State::running, Change::start_done), std::nullopt);
}

TEST(Lifecycle, ARecoveryGoesBackToWhatItWas) {
  for (const State state : {State::running, State::pausing, State::paused, State::resuming, State::failed})
    EXPECT_EQ(after(state, Change::recovery_begun), State::recovering) << to_string(state);
  EXPECT_EQ(after(State::recovering, Change::recovery_done), State::running);
  EXPECT_EQ(after(State::recovering, Change::recovery_rests), State::paused);
  EXPECT_EQ(after(State::recovering, Change::recovery_stops), State::stopped);
  EXPECT_EQ(after(State::recovering, Change::recovery_failed), State::failed);
  // A restart of the daemon does not end it as it ends a start that nobody can finish.
  EXPECT_TRUE(in_transition(State::recovering));
  EXPECT_FALSE(half_built(State::recovering));
  EXPECT_TRUE(half_built(State::creating));
}

TEST(Lifecycle, NothingFollowsDeletion) {
  for (int change = 0; change <= static_cast<int>(Change::deletion_done); ++change)
    EXPECT_EQ(after(State::deleted, static_cast<Change>(change)), std::nullopt);
}

TEST(Lifecycle, EveryChangeIsUsed) {
  std::set<Change> used;
  for (const Transition& t : transitions) used.insert(t.change);
  EXPECT_EQ(used.size(), static_cast<std::size_t>(Change::deletion_done) + 1);
}

TEST(Lifecycle, ClientsSeeThreeStates) {
  const std::set<State> running = {State::creating, State::running, State::recovering, State::lost};
  const std::set<State> gone = {State::failed, State::deleted};
  for (const State state : all_states) {
    const ClientView expected = running.contains(state) ? ClientView::running
                                : gone.contains(state)  ? ClientView::gone
                                                        : ClientView::paused;
    EXPECT_EQ(client_view(state), expected) << to_string(state);
  }
}

TEST(Lifecycle, AnIdlePauseIsNotShown) {
  EXPECT_EQ(client_view(State::paused, true), ClientView::running);
  EXPECT_EQ(client_view(State::suspended, true), ClientView::paused);
}

TEST(Lifecycle, NamesGoBothWays) {
  for (const State state : all_states) EXPECT_EQ(state_from(to_string(state)), state);
  EXPECT_EQ(state_from("Running"), std::nullopt);
  for (const Wanted wanted :
       {Wanted::running, Wanted::paused, Wanted::suspended, Wanted::stopped, Wanted::deleted})
    EXPECT_EQ(wanted_from(to_string(wanted)), wanted);
  EXPECT_EQ(wanted_from(""), std::nullopt);
}

}  // namespace
}  // namespace space
