#include "sandboxd/channel_link.h"

#include "base/ids.h"
#include "base/log.h"
#include "net/channel.h"
#include "sandboxd/faults.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis attach_pause_min = 100ms;
constexpr Millis attach_pause_max = 5s;
constexpr Millis connect_limit = 2s;
// How long QEMU needs to notice a connection that came or went, and a guest that runs already.
constexpr Millis settle = 3ms, notices_hang_up = 3ms;
// The same of a guest that runs for the first time since it was copied, under emulation on a busy machine.
constexpr Millis notices_hang_up_first = 120ms;
// A copy answers in 50 ms or so, and much later on a machine that starts a hundred of them.
constexpr Millis copy_answers = 3s;

channel::Sync make_sync(std::uint64_t epoch) {
  channel::Sync sync;
  sync.epoch = epoch;
  sync.wall_clock_us = std::chrono::duration_cast<std::chrono::microseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  if (!is_on(Fault::no_reseed)) fill_random(sync.entropy);
  return sync;
}

}  // namespace

ChannelLink::ChannelLink(Executor executor, std::string socket_path, Hooks hooks, Pace pace)
    : executor_(executor),
      socket_path_(std::move(socket_path)),
      hooks_(std::move(hooks)),
      pace_(pace),
      wake_(executor),
      attached_(executor) {}

ChannelLink::~ChannelLink() = default;

std::shared_ptr<H2Session> ChannelLink::session() const {
  return session_ && !session_->closed() ? session_ : nullptr;
}

Task<Result<void>> ChannelLink::connect(Deadline deadline) {
  const auto self = shared_from_this();
  SPACE_CO_TRY(epoch_ahead_, hooks_.next_epoch());  // it is written down: now nobody waits for that
  SPACE_CO_TRY(ahead_, co_await connect_unix(socket_path_, deadline.at_most(connect_limit)));
  co_return Result<void>();
}

Task<Result<StreamPtr>> ChannelLink::transport(Deadline deadline) {
  if (ahead_) co_return std::move(ahead_);
  co_return co_await connect_unix(socket_path_, deadline.at_most(connect_limit));
}

Task<Result<void>> ChannelLink::attach(Deadline deadline, EarlierHost earlier) {
  const auto self = shared_from_this();
  SPACE_CO_TRY(StreamPtr stream, co_await synchronise(deadline, earlier));
  if (closed_) co_return fail(Code::unavailable, "the channel was closed");
  session_ = H2Session::client(std::move(stream));
  spawn(executor_, "channel session", drive(session_));
  missed_beats_ = 0;
  set_responsive(true);
  attached_.notify_all();
  hooks_.changed();
  co_return Result<void>();
}

Task<Result<StreamPtr>> ChannelLink::synchronise(Deadline deadline, EarlierHost earlier) {
  const auto ahead = std::exchange(epoch_ahead_, std::nullopt);
  SPACE_CO_TRY(const std::uint64_t epoch, ahead ? Result<std::uint64_t>(*ahead) : hooks_.next_epoch());
  if (earlier == EarlierHost::gone || earlier == EarlierHost::cut)
    co_return co_await hang_up_and_synchronise(
        epoch, deadline, earlier == EarlierHost::gone ? notices_hang_up : notices_hang_up_first);
  SPACE_CO_TRY(StreamPtr opened, co_await transport(deadline));
  if (earlier == EarlierHost::none)
    co_return co_await channel::attach(std::move(opened), make_sync(epoch), deadline);
  const Deadline patience = deadline.at_most(copy_answers);
  auto stream = co_await channel::attach(std::move(opened), make_sync(epoch), patience);
  if (stream || stream.error().code != Code::deadline || deadline.passed()) co_return stream;
  // It stands in the midst of a frame after all, and takes what it is told for that one's content.
  log::warn("a copy did not hear its host and is hung up on", {{"socket", socket_path_}});
  co_return co_await hang_up_and_synchronise(epoch, deadline, notices_hang_up_first);
}

// The guest must see a hang-up between two hosts, or bytes of the last session reach this one's parser.
Task<Result<StreamPtr>> ChannelLink::hang_up_and_synchronise(std::uint64_t epoch, Deadline deadline,
                                                             Millis unseen) {
  {
    SPACE_CO_TRY(const StreamPtr hang_up, co_await transport(deadline));
    co_await sleep_for(settle);
  }
  co_await sleep_for(unseen);
  SPACE_CO_TRY(StreamPtr opened, co_await transport(deadline));
  co_return co_await channel::attach(std::move(opened), make_sync(epoch), deadline);
}

Task<bool> ChannelLink::hold(Deadline deadline) {
  const auto self = shared_from_this();
  const auto session = this->session();
  co_return session&& co_await session->hold(deadline);
}

void ChannelLink::release() {
  if (session_) session_->release();
}

// Two attaches at a time would hang each other up.
Task<Result<void>> ChannelLink::attached(Deadline deadline) {
  const auto self = shared_from_this();
  if (!kept_) co_return co_await attach(deadline);
  while (!session()) {
    if (closed_) co_return fail(Code::unavailable, "the channel was closed");
    if (!co_await attached_.wait(deadline)) co_return fail(Code::deadline, "the guest does not answer");
  }
  co_return Result<void>();
}

void ChannelLink::keep() {
  if (std::exchange(kept_, true)) return;
  spawn(executor_, "channel keeper", keep_attached());
}

void ChannelLink::rest(bool still) {
  resting_ = still;
  missed_beats_ = 0;
  wake_.notify_all();
}

void ChannelLink::close() {
  if (std::exchange(closed_, true)) return;
  hooks_.changed = [] {};
  ahead_.reset();
  if (session_) session_->close("the sandbox is gone");
  attached_.notify_all();
  wake_.notify_all();
}

Task<void> ChannelLink::drive(std::shared_ptr<H2Session> session) {
  const auto self = shared_from_this();
  const Error ended = co_await session->run();
  if (!closed_) log::warn("channel session ended", {{"socket", socket_path_}, log::Field(ended)});
  hooks_.changed();
  wake_.notify_all();
}

Task<void> ChannelLink::keep_attached() {
  const auto self = shared_from_this();
  Millis pause = attach_pause_min;
  while (!closed_) {
    if (resting_) {
      co_await wake_.wait();
      continue;
    }
    if (session()) {
      pause = attach_pause_min;
      const bool woken = co_await wake_.wait(Deadline::after(pace_.beat_interval));
      if (!woken && session()) co_await heart_beat();
      continue;
    }
    if (auto attached = co_await attach(Deadline::after(pace_.attach_limit)); !attached && !closed_) {
      log::warn("channel attach failed", {{"socket", socket_path_}, log::Field(attached.error())});
      // A VMM that is not there any more is a death, reported as one; here it is the guest that is silent.
      if (attached.error().code != Code::unavailable) set_responsive(false);
      co_await wake_.wait(Deadline::after(pause));
      pause = std::min(pause * 2, attach_pause_max);
    }
  }
}

Task<void> ChannelLink::heart_beat() {
  const auto session = session_;
  const auto answered = co_await session->ping(Deadline::after(pace_.beat_limit));
  if (resting_) co_return;  // it was stopped meanwhile, and owes no answer
  if (answered) {
    missed_beats_ = 0;
    set_responsive(true);
    co_return;
  }
  set_responsive(false);
  if (++missed_beats_ >= pace_.missed_beats_max) session->close("the guest no longer answers");
}

void ChannelLink::set_responsive(bool responsive) {
  if (std::exchange(responsive_, responsive) != responsive) hooks_.changed();
}

Task<Result<JsonObject>> ChannelLink::control(std::string name, JsonObject body, Deadline deadline) {
  const auto session = this->session();
  if (!session) co_return fail(Code::unavailable, "the guest is not attached");
  CallRequest request;
  request.path = "/control/" + name;
  request.body = to_text(body);
  auto response = co_await session->call(std::move(request), deadline);
  if (!response) co_return wrap(std::move(response).error(), "guest call " + name);
  auto answer = parse_json_object(response->body, "the guest's answer");
  if (response->status == 200) co_return answer;
  // What the guest says is hostile text: bounded here, escaped wherever it is printed.
  std::string message = "no message";
  if (answer)
    if (auto text = text_member(*answer, "message"); text && *text) message = (*text)->substr(0, 200);
  co_return fail(Code::internal, "guest call {} answered {}: {}", name, response->status, message);
}

}  // namespace space
