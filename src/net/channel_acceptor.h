// Acceptor: the guest's end of the private channel (api/channel.md). Waits for a SYNC, answers it and hands
// out a stream for one HTTP/2 session; then the same again.
//
// A guest that was copied goes on in the midst of a session whose host is another machine's: the new host's
// SYNC then stands in the place of the session's next frame. The session ends there, and that very SYNC
// begins the next one. Only the place of a frame counts: what clients of a session send is inside of frames,
// and can never act as a SYNC, not even after the session has ended, for as long as its host has not hung up.
#pragma once

#include <functional>
#include <memory>

#include "net/channel.h"

namespace space::channel {

class Acceptor {
 public:
  // With no transport it is closed until reopen().
  explicit Acceptor(StreamPtr transport = nullptr);

  // Waits for a SYNC, whatever stale bytes come before; answers it, and each newer one until the HTTP/2
  // session starts. `on_sync` applies clock and entropy before the answer is sent. No common version: answers
  // version 0 and fails with Code::conflict. Waits as long as it takes. The last session must have ended.
  Task<Result<StreamPtr>> accept(std::function<void(const Sync&)> on_sync);
  // accept() may be called: neither did the host hang up nor was a session reset in the midst of a write.
  bool is_open() const;
  // A host is there: it has sent more than the last session took.
  bool has_more() const;
  // Another handle of what the last transport was one of: what came through that is not forgotten.
  void reopen(StreamPtr transport);

 private:
  struct State;
  class SessionStream;
  static Task<Result<StreamPtr>> next_session(std::shared_ptr<State> state,
                                              std::function<void(const Sync&)> on_sync);
  static Task<Result<void>> read_more(State& state);
  static Task<Result<void>> skip_session(State& state);

  std::shared_ptr<State> state_;
};

// One session over `transport`.
Task<Result<StreamPtr>> accept(StreamPtr transport, std::function<void(const Sync&)> on_sync);

}  // namespace space::channel
