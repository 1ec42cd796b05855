// ChannelLink: one sandbox's private channel (api/channel.md), attached and kept attached.
//
// Connects to the socket QEMU listens on, synchronises, holds the HTTP/2 session. A heart-beat every 5 s
// finds a guest that no longer answers; a session that ended is attached anew for as long as the link is
// open. Everything waits here, in this sandbox's own coroutines: a silent guest delays nobody else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "core/start_plan.h"
#include "net/h2_session.h"

namespace space {

class ChannelLink : public std::enable_shared_from_this<ChannelLink> {
 public:
  struct Hooks {
    // The number of the next attach, larger than every one before.
    std::function<Result<std::uint64_t>()> next_epoch;
    // The session came or went, or the guest fell silent or spoke again.
    std::function<void()> changed;
  };

  struct Pace {
    Millis beat_interval{5000};
    Millis beat_limit{5000};
    // A guest may starve on a crowded machine; only a long silence is worth breaking its open streams for.
    int missed_beats_max = 6;
    Millis attach_limit{10000};
  };

  ChannelLink(Executor executor, std::string socket_path, Hooks hooks, Pace pace);
  ~ChannelLink();

  // Opens the connection of the next attach ahead of it: of a copy before it has its devices, so that it sees
  // no host come or go.
  Task<Result<void>> connect(Deadline deadline);
  // One attach, for a guest that is booting: waits until it answers or the deadline passes. Not while it is
  // kept.
  Task<Result<void>> attach(Deadline deadline, EarlierHost earlier = EarlierHost::gone);
  // The same for one that is kept attached: waits until it is.
  Task<Result<void>> attached(Deadline deadline);
  // From now on keeps it attached and watches it, until close().
  void keep();
  // Sends nothing more; true once the guest has taken all that was sent, so that a copy of it stands between
  // two frames. Until release().
  Task<bool> hold(Deadline deadline);
  void release();
  // While the guest stands still it is neither asked nor attached anew; the session stays.
  void rest(bool still);
  void rehook(Hooks hooks) { hooks_ = std::move(hooks); }
  // Resets every stream. No hook is called any more.
  void close();

  // nullptr while not attached.
  std::shared_ptr<H2Session> session() const;
  // False once a heart-beat or an attach went unanswered, until one is answered.
  bool responsive() const { return responsive_; }

  // POST /control/<name>; an answer other than 200 is an error with the guest's message.
  Task<Result<JsonObject>> control(std::string name, JsonObject body, Deadline deadline);

 private:
  Task<Result<StreamPtr>> transport(Deadline deadline);
  Task<Result<StreamPtr>> synchronise(Deadline deadline, EarlierHost earlier);
  Task<Result<StreamPtr>> hang_up_and_synchronise(std::uint64_t epoch, Deadline deadline, Millis unseen);
  Task<void> keep_attached();
  Task<void> heart_beat();
  Task<void> drive(std::shared_ptr<H2Session> session);
  void set_responsive(bool responsive);

  Executor executor_;
  std::string socket_path_;
  Hooks hooks_;
  Pace pace_;
  StreamPtr ahead_;  // connected already, for the next attach, and its number
  std::optional<std::uint64_t> epoch_ahead_;
  std::shared_ptr<H2Session> session_;
  Event wake_;
  Event attached_;
  bool kept_ = false;
  int missed_beats_ = 0;
  bool responsive_ = true;
  bool resting_ = false;
  bool closed_ = false;
};

}  // namespace space
