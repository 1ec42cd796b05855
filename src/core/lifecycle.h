// Lifecycle: the one state machine of a sandbox. What may follow what is one table, proved at compile time;
// everyone else asks the predicates below and compares no states. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace space {

// What is seen of a sandbox.
enum class State : unsigned char {
  creating,  // its first start is under way
  running,
  pausing,     // its memory is being kept, or dropped by a stop
  paused,      // memory kept on the node
  resuming,    // from paused, or booting from stopped
  suspending,  // its state is moving to object storage
  suspended,   // the node holds nothing of it
  restoring,   // from suspended
  stopped,     // disk kept, memory dropped
  recovering,  // from a crash; its memory is none until its VMM runs again
  lost,        // its node is gone
  failed,      // a fault ended it; the reason is kept with it
  deleted,
};
inline constexpr std::array all_states = {
    State::creating,   State::running,   State::pausing,   State::paused,  State::resuming,
    State::suspending, State::suspended, State::restoring, State::stopped, State::recovering,
    State::lost,       State::failed,    State::deleted};

// Where its memory is. What a state cannot say: a paused sandbox is hot (vmm) or cold (checkpoint).
enum class MemoryPlace : unsigned char {
  vmm,         // in its VMM, running or stopped
  checkpoint,  // in a finished snapshot of its own; a VMM that is there all the same is of no use
  none,        // dropped: it boots
};

// What its owner wants it to be.
enum class Wanted : unsigned char { running, paused, suspended, stopped, deleted };

// What happens to it.
enum class Change : unsigned char {
  start_done,
  start_failed,
  pause_begun,
  pause_done,
  pause_failed,
  stop_begun,
  stop_done,
  resume_begun,
  resume_done,
  resume_failed,
  boot_begun,
  boot_failed,
  suspend_begun,
  suspend_done,
  suspend_failed,
  restore_begun,
  restore_done,
  restore_failed,
  vmm_died,  // and no policy brings it back
  recovery_begun,
  recovery_done,
  recovery_rests,  // it rested, and does so again: cold at a checkpoint
  recovery_stops,  // the same, at a disk
  recovery_failed,
  rollback_to_memory,  // it is put where a snapshot of its own was, and rests there until it goes on
  rollback_to_disk,    // the same, without memory
  node_lost,
  node_returned,
  deletion_done,
};

struct Transition {
  State from;
  Change change;
  State to;
};

inline constexpr auto transitions = [] {
  using enum State;
  using enum Change;
  return std::to_array<Transition>({
      // clang-format off
      {creating,   start_done,      running},
      {creating,   start_failed,    failed},
      {creating,   vmm_died,        failed},
      {creating,   node_lost,       lost},
      {creating,   deletion_done,   deleted},

      {running,    pause_begun,     pausing},
      {running,    stop_begun,      pausing},
      {running,    suspend_begun,   suspending},
      {running,    vmm_died,        failed},
      {running,    recovery_begun,  recovering},
      {running,    node_lost,       lost},
      {running,    deletion_done,   deleted},

      {pausing,    pause_done,      paused},
      {pausing,    stop_done,       stopped},
      {pausing,    pause_failed,    running},
      {pausing,    rollback_to_memory, paused},
      {pausing,    rollback_to_disk, stopped},
      {pausing,    vmm_died,        failed},
      {pausing,    recovery_begun,  recovering},
      {pausing,    node_lost,       lost},
      {pausing,    deletion_done,   deleted},

      {paused,     resume_begun,    resuming},
      {paused,     stop_begun,      pausing},
      {paused,     suspend_begun,   suspending},
      {paused,     rollback_to_memory, paused},
      {paused,     rollback_to_disk, stopped},
      {paused,     vmm_died,        failed},
      {paused,     recovery_begun,  recovering},
      {paused,     node_lost,       lost},
      {paused,     deletion_done,   deleted},

      {resuming,   resume_done,     running},
      {resuming,   resume_failed,   paused},
      {resuming,   boot_failed,     stopped},
      {resuming,   vmm_died,        failed},
      {resuming,   recovery_begun,  recovering},
      {resuming,   node_lost,       lost},
      {resuming,   deletion_done,   deleted},

      {suspending, suspend_done,    suspended},
      {suspending, suspend_failed,  paused},
      {suspending, vmm_died,        failed},
      {suspending, recovery_begun,  recovering},
      {suspending, node_lost,       lost},
      {suspending, deletion_done,   deleted},

      {suspended,  restore_begun,   restoring},
      {suspended,  deletion_done,   deleted},

      {restoring,  restore_done,    running},
      {restoring,  restore_failed,  suspended},
      {restoring,  vmm_died,        suspended},
      {restoring,  node_lost,       suspended},
      {restoring,  deletion_done,   deleted},

      {stopped,    boot_begun,      resuming},
      {stopped,    suspend_begun,   suspending},
      {stopped,    recovery_begun,  recovering},
      {stopped,    rollback_to_memory, paused},
      {stopped,    rollback_to_disk, stopped},
      {stopped,    node_lost,       lost},
      {stopped,    deletion_done,   deleted},

      {recovering, recovery_done,   running},
      {recovering, recovery_rests,  paused},
      {recovering, recovery_stops,  stopped},
      {recovering, recovery_failed, failed},
      {recovering, vmm_died,        failed},
      {recovering, node_lost,       lost},
      {recovering, deletion_done,   deleted},

      {lost,       node_returned,   recovering},
      {lost,       recovery_begun,  recovering},
      {lost,       recovery_failed, failed},
      {lost,       deletion_done,   deleted},

      {failed,     recovery_begun,  recovering},
      {failed,     rollback_to_memory, paused},
      {failed,     rollback_to_disk, stopped},
      {failed,     deletion_done,   deleted},
      // clang-format on
  });
}();

// The state after `change`, or nothing when `state` does not allow it.
constexpr std::optional<State> after(State state, Change change) {
  for (const Transition& t : transitions)
    if (t.from == state && t.change == change) return t.to;
  return std::nullopt;
}

// Work is under way that ends by itself: a request waits for it.
constexpr bool in_transition(State state) {
  using enum State;
  return state == creating || state == pausing || state == resuming || state == suspending ||
         state == restoring || state == recovering;
}
// Its guest can be talked to.
constexpr bool serves(State state) {
  return state == State::running;
}
// A VMM belongs to it; when there is none, it died.
constexpr bool expects_vmm(State state, MemoryPlace memory = MemoryPlace::vmm) {
  using enum State;
  const bool may_rest_without = state == paused || state == resuming;
  if (may_rest_without && memory != MemoryPlace::vmm) return false;
  return state == running || state == pausing || state == paused || state == resuming || state == suspending;
}
// Stands still until somebody asks: its memory or disk is kept.
constexpr bool rests(State state) {
  return state == State::paused || state == State::stopped;
}
// Rests, or is being woken: what it was before is there still when that is interrupted.
constexpr bool may_rest(State state) {
  return rests(state) || state == State::resuming;
}
// A rollback put its disk in place, and it was to boot.
constexpr bool is_to_boot(State state, Wanted wanted) {
  return state == State::stopped && wanted == Wanted::running;
}
// Being stopped: the end of its VMM is what was wanted.
constexpr bool is_stop(State state, Wanted wanted) {
  return state == State::pausing && wanted == Wanted::stopped;
}
// Built from parts that are of no use when the work was interrupted half-way.
constexpr bool half_built(State state) {
  using enum State;
  return state == creating || state == restoring;
}
// On its way back from a crash: its disk and its snapshots are what it goes on from.
constexpr bool recovers(State state) {
  return state == State::recovering;
}
constexpr bool is_failed(State state) {
  return state == State::failed;
}
// Failed, and what it could be recovered from stays: its disk, its snapshots. The others hold nothing.
constexpr bool keeps_disk(State state, MemoryPlace memory) {
  return is_failed(state) && memory == MemoryPlace::none;
}
constexpr bool is_end(State state) {
  return state == State::deleted;
}
constexpr bool is_deletion(Wanted wanted) {
  return wanted == Wanted::deleted;
}

// The wish that a settled state fulfils; nothing for the others.
constexpr std::optional<Wanted> fulfils(State state) {
  switch (state) {
    case State::running:
      return Wanted::running;
    case State::paused:
      return Wanted::paused;
    case State::suspended:
      return Wanted::suspended;
    case State::stopped:
      return Wanted::stopped;
    default:
      return std::nullopt;
  }
}
// The state on the way from a settled one to what is wanted.
constexpr State way_to(Wanted wanted) {
  switch (wanted) {
    case Wanted::running:
      return State::resuming;
    case Wanted::suspended:
      return State::suspending;
    case Wanted::paused:
    case Wanted::stopped:
      return State::pausing;
    case Wanted::deleted:
      return State::deleted;
  }
  __builtin_unreachable();
}
// `idle`: it rests by its node's own choice and any request wakes it, which counts as running.
constexpr State state_for_clients(State state, bool idle) {
  using enum State;
  const bool asleep = state == pausing || state == paused || state == resuming;
  return idle && asleep ? running : state;
}

constexpr std::string_view to_string(MemoryPlace place) {
  constexpr std::array<std::string_view, 3> names = {"vmm", "checkpoint", "none"};
  return names[static_cast<std::size_t>(place)];
}
constexpr std::optional<MemoryPlace> memory_place_from(std::string_view name) {
  for (std::size_t i = 0; i < 3; ++i)
    if (to_string(static_cast<MemoryPlace>(i)) == name) return static_cast<MemoryPlace>(i);
  return std::nullopt;
}

// What a client of the E2B surface sees. `gone` is 404 with the reason.
enum class ClientView : unsigned char { running, paused, gone };

// `idle`: paused by the platform because nothing happened, to be undone by any request, so not shown.
// recovering and lost are shown as running: they want to be, and a request waits for them as in any
// transition.
constexpr ClientView client_view(State state, bool idle = false) {
  switch (state) {
    case State::creating:
    case State::running:
    case State::recovering:
    case State::lost:
      return ClientView::running;
    case State::pausing:
    case State::paused:
    case State::resuming:
      return idle ? ClientView::running : ClientView::paused;
    case State::suspending:
    case State::suspended:
    case State::restoring:
    case State::stopped:
      return ClientView::paused;
    case State::failed:
    case State::deleted:
      return ClientView::gone;
  }
  __builtin_unreachable();
}

constexpr std::string_view to_string(State state) {
  constexpr std::array<std::string_view, all_states.size()> names = {
      "creating",  "running", "pausing",    "paused", "resuming", "suspending", "suspended",
      "restoring", "stopped", "recovering", "lost",   "failed",   "deleted"};
  return names[static_cast<std::size_t>(state)];
}
constexpr std::optional<State> state_from(std::string_view name) {
  for (const State state : all_states)
    if (to_string(state) == name) return state;
  return std::nullopt;
}

constexpr std::string_view to_string(Wanted wanted) {
  constexpr std::array<std::string_view, 5> names = {"running", "paused", "suspended", "stopped", "deleted"};
  return names[static_cast<std::size_t>(wanted)];
}
constexpr std::optional<Wanted> wanted_from(std::string_view name) {
  for (std::size_t i = 0; i < 5; ++i)
    if (to_string(static_cast<Wanted>(i)) == name) return static_cast<Wanted>(i);
  return std::nullopt;
}

// The proofs. A table that breaks one does not compile.
namespace lifecycle_proofs {

constexpr bool no_rule_twice() {
  for (std::size_t i = 0; i < transitions.size(); ++i)
    for (std::size_t j = i + 1; j < transitions.size(); ++j)
      if (transitions[i].from == transitions[j].from && transitions[i].change == transitions[j].change)
        return false;
  return true;
}

// Reflexive and transitive. `without` leaves out one change.
constexpr bool reaches(State from, State to, std::optional<Change> without = std::nullopt) {
  std::array<bool, all_states.size()> seen{};
  seen[static_cast<std::size_t>(from)] = true;
  for (std::size_t round = 0; round < all_states.size(); ++round)
    for (const Transition& t : transitions)
      if (seen[static_cast<std::size_t>(t.from)] && t.change != without)
        seen[static_cast<std::size_t>(t.to)] = true;
  return seen[static_cast<std::size_t>(to)];
}

template <class Predicate>
constexpr bool every_state(Predicate predicate) {
  for (const State state : all_states)
    if (!predicate(state)) return false;
  return true;
}

static_assert(no_rule_twice());
static_assert(every_state([](State s) { return reaches(State::creating, s); }), "a state nothing leads to");
static_assert(every_state([](State s) { return reaches(s, State::deleted); }), "a state without an end");
static_assert(every_state([](State s) {
                return is_end(s) || after(s, Change::deletion_done) == State::deleted;
              }),
              "deletion wins from every state");
static_assert(every_state([](State s) {
                for (const Transition& t : transitions)
                  if (is_end(s) && t.from == s) return false;
                return true;
              }),
              "nothing follows an end");
static_assert(every_state([](State s) {
                return is_end(s) || reaches(s, State::running, Change::deletion_done);
              }),
              "a dead end: nothing brings it back to running");
static_assert(every_state([](State s) {
                // Both outcomes of a transition lead on: it settles without being deleted, wherever it fails.
                if (!in_transition(s)) return true;
                int exits = 0;
                for (const Transition& t : transitions)
                  if (t.from == s && !in_transition(t.to) && !is_end(t.to)) ++exits;
                return exits >= 2;
              }),
              "a transition with only one outcome");
static_assert(every_state([](State s) { return !expects_vmm(s) || after(s, Change::vmm_died).has_value(); }),
              "a death that nothing answers");
static_assert(every_state([](State s) { return !half_built(s) || (in_transition(s) && !expects_vmm(s)); }));
static_assert(every_state([](State s) { return state_from(to_string(s)) == s; }),
              "names are unique and in order");

}  // namespace lifecycle_proofs
}  // namespace space
