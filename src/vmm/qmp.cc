#include "vmm/qmp.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"

namespace space::vmm {
namespace {

constexpr std::size_t console_bytes = 65536;
constexpr std::size_t state_name_limit_bytes = 32;
// QEMU limits its own events to a few a second; more is a VMM that burns our processor time.
constexpr std::uint32_t events_per_second_max = 1000;
constexpr std::int64_t fdset_id_max = 1'000'000;
constexpr Millis take_back_limit{5'000};
constexpr Millis load_poll_interval{2};
constexpr std::size_t reason_limit_bytes = 256;

// What QEMU is to write into: opened by a name for writing only, and emptied by it, which no pipe can be. Its
// memory counts as the VMM's that fills it.
struct StateFile {
  Fd reader;
  Fd writer;

  static Result<StateFile> make() {
    StateFile file;
    file.reader = Fd(::memfd_create("device-state", MFD_CLOEXEC));
    if (!file.reader) return fail_errno(errno, "make a file for a device state");
    SPACE_TRY(file.writer, open_fd(fmt::format("/proc/self/fd/{}", file.reader.get()), O_WRONLY));
    return file;
  }

  // QEMU may go on writing: what counts is what is read here, once.
  Result<std::string> content() const {
    struct stat status{};
    if (::fstat(reader.get(), &status) != 0) return fail_errno(errno, "device state");
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > device_state_limit_bytes)
      return fail(Code::exhausted, "a device state of {} bytes, more than {}", size,
                  device_state_limit_bytes);
    std::string text(size, '\0');
    const ssize_t count = ::pread(reader.get(), text.data(), size, 0);
    if (count < 0) return fail_errno(errno, "read a device state");
    if (size == 0 || static_cast<std::size_t>(count) != size)
      return fail(Code::invalid_argument, "QEMU wrote no whole device state");
    return text;
  }
};

}  // namespace

// Shared by the reading task, the commands under way and the Qmp; closed by whichever is done with it first.
class Qmp::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(const Executor& executor, StreamPtr stream, EventHandler on_event)
      : stream_(std::move(stream)), on_event_(std::move(on_event)), changed_(executor) {}

  static Task<void> run(std::shared_ptr<Session> self) { self->close(co_await self->read_messages()); }

  static Task<Result<void>> greeted(std::shared_ptr<Session> self, Deadline deadline) {
    co_return co_await self->wait_until([&self] { return !self->version_.empty(); }, deadline,
                                        "QMP greeting");
  }

  // `descriptor` goes along, if it is one.
  static Task<Result<Json>> execute(std::shared_ptr<Session> self, std::string name, JsonObject arguments,
                                    Fd descriptor, Deadline deadline) {
    Session& session = *self;
    SPACE_CO_CHECK(co_await session.wait_until([&session] { return !session.busy_; }, deadline, name));
    Turn turn(session);
    const std::string text = qmp_command(name, std::move(arguments), ++session.last_id_);
    SPACE_CO_CHECK(co_await with_deadline(descriptor
                                              ? session.stream_->write_with(as_bytes(text), descriptor.get())
                                              : session.stream_->write(as_bytes(text)),
                                          deadline, name));
    turn.sent = true;
    SPACE_CO_CHECK(
        co_await session.wait_until([&session] { return session.answer_.has_value(); }, deadline, name));
    if (!*session.answer_) co_return wrap(std::move(*session.answer_).error(), name);
    co_return **std::move(session.answer_);
  }

  void close(Error why) noexcept {
    if (why_closed_) return;
    why_closed_ = std::move(why);
    stream_->reset();
    changed_.notify_all();
  }
  bool closed() const { return why_closed_.has_value(); }
  const std::string& version() const { return version_; }

 private:
  // The right to speak, given back however the command ends, a cancellation included.
  class Turn {
   public:
    explicit Turn(Session& session) : session_(session) {
      session_.busy_ = true;
      session_.answer_.reset();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool sent = false;
    ~Turn() {
      if (!sent) session_.close(Error{Code::unavailable, "half a command was sent"});  // no other can follow
      session_.busy_ = false;
      session_.changed_.notify_all();
    }

   private:
    Session& session_;
  };

  Task<Result<void>> wait_until(std::function<bool()> done, Deadline deadline, std::string what) {
    while (!done()) {
      if (why_closed_)
        co_return fail(Code::unavailable, "{}: QMP session closed: {}", what, why_closed_->message);
      if (deadline.passed()) co_return fail(Code::deadline, "{}: no answer from QEMU in time", what);
      co_await changed_.wait(deadline);
    }
    co_return Result<void>();
  }

  Task<Error> read_messages() {
    std::array<std::byte, 16384> chunk;
    while (!why_closed_) {
      const auto count = co_await stream_->read(chunk);
      if (!count) co_return count.error();
      if (*count == 0) co_return Error{Code::unavailable, "QEMU ended the connection"};
      reader_.feed(std::span(chunk).first(*count));
      if (auto taken = take_messages(); !taken) co_return std::move(taken).error();
    }
    co_return *why_closed_;
  }

  Result<void> take_messages() {
    while (!why_closed_) {
      SPACE_TRY(auto message, reader_.next());
      if (!message) break;
      SPACE_CHECK(std::visit([this](auto& m) { return receive(m); }, *message));
    }
    return {};
  }

  Result<void> receive(QmpGreeting& greeting) {
    if (!version_.empty()) return fail(Code::invalid_argument, "a second QMP greeting");
    version_ = std::move(greeting.version);
    changed_.notify_all();
    return {};
  }

  Result<void> receive(QmpReply& reply) {
    if (reply.id > last_id_) return fail(Code::invalid_argument, "an answer to a command never given");
    if (reply.id < last_id_ || !busy_ || answer_) return {};  // its caller has given up
    answer_ = std::move(reply.value);
    changed_.notify_all();
    return {};
  }

  Result<void> receive(QmpEvent event) {
    const auto now = system_clock().monotonic();
    if (now - window_start_ >= std::chrono::seconds(1)) {
      window_start_ = now;
      events_in_window_ = 0;
    }
    if (++events_in_window_ > events_per_second_max) return fail(Code::exhausted, "a flood of QMP events");
    if (event != QmpEvent::other && on_event_) on_event_(event);
    return {};
  }

  StreamPtr stream_;
  EventHandler on_event_;
  QmpReader reader_;
  Event changed_;  // greeted, answered, turn given back, closed
  std::string version_;
  bool busy_ = false;
  std::uint64_t last_id_ = 0;
  std::optional<Result<Json>> answer_;  // to last_id_
  std::optional<Error> why_closed_;
  Monotonic window_start_{};
  std::uint32_t events_in_window_ = 0;
};

// A descriptor in QEMU's hands, under the name /dev/fdset/N; taken back however its use ends.
class Qmp::PassedFd {
 public:
  static Task<Result<PassedFd>> pass(std::shared_ptr<Session> session, Fd fd, Deadline deadline) {
    SPACE_CO_TRY(const Json answer,
                 co_await Session::execute(session, "add-fd", {}, std::move(fd), deadline));
    const JsonObject* object = answer.if_object();
    if (object == nullptr) co_return fail(Code::invalid_argument, "add-fd: not an object");
    SPACE_CO_TRY(const std::int64_t set, require_int(*object, "fdset-id", 0, fdset_id_max));
    const Executor executor = co_await boost::asio::this_coro::executor;
    co_return PassedFd(executor, std::move(session), set);
  }
  PassedFd(PassedFd&& other) noexcept = default;
  PassedFd& operator=(PassedFd&&) = delete;
  // On its own, because a caller that was cancelled can wait for nothing.
  ~PassedFd() {
    if (session_) spawn(executor_, "take a descriptor back", take_back(std::move(session_), set_));
  }

  std::string path() const { return fmt::format("/dev/fdset/{}", set_); }

 private:
  PassedFd(Executor executor, std::shared_ptr<Session> session, std::int64_t set)
      : executor_(std::move(executor)), session_(std::move(session)), set_(set) {}

  static Task<void> take_back(std::shared_ptr<Session> session, std::int64_t set) {
    const auto removed = co_await Session::execute(std::move(session), "remove-fd", {{"fdset-id", set}}, Fd(),
                                                   Deadline::after(take_back_limit));
    // A session that ended took the descriptor with it or will be followed by the end of QEMU.
    if (!removed) log::debug("a descriptor is left with QEMU", {log::Field(removed.error())});
  }

  Executor executor_;
  std::shared_ptr<Session> session_;
  std::int64_t set_;
};

Qmp::Qmp(std::shared_ptr<Session> session) : session_(std::move(session)) {}

Qmp::~Qmp() {
  close("no longer needed");
}

Task<Result<std::unique_ptr<Qmp>>> Qmp::open(StreamPtr stream, EventHandler on_event, Deadline deadline) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  auto session = std::make_shared<Session>(executor, std::move(stream), std::move(on_event));
  std::unique_ptr<Qmp> qmp(new Qmp(session));
  spawn(executor, "qmp", Session::run(session));
  SPACE_CO_CHECK(co_await Session::greeted(session, deadline));
  SPACE_CO_CHECK(co_await qmp->execute("qmp_capabilities", {}, deadline));
  co_return qmp;
}

Task<Result<Json>> Qmp::execute(std::string command, JsonObject arguments, Deadline deadline) {
  return Session::execute(session_, std::move(command), std::move(arguments), Fd(), deadline);
}

void Qmp::close(std::string reason) noexcept {
  session_->close(Error{Code::unavailable, std::move(reason)});
}

bool Qmp::closed() const {
  return session_->closed();
}

const std::string& Qmp::server_version() const {
  return session_->version();
}

Task<Result<void>> Qmp::command(std::string name, Deadline deadline) {
  SPACE_CO_CHECK(co_await execute(std::move(name), {}, deadline));
  co_return Result<void>();
}

Task<Result<void>> Qmp::stop(Deadline deadline) {
  return command("stop", deadline);
}
Task<Result<void>> Qmp::cont(Deadline deadline) {
  return command("cont", deadline);
}
Task<Result<void>> Qmp::system_powerdown(Deadline deadline) {
  return command("system_powerdown", deadline);
}
Task<Result<void>> Qmp::quit(Deadline deadline) {
  return command("quit", deadline);
}

Task<Result<VmStatus>> Qmp::query_status(Deadline deadline) {
  SPACE_CO_TRY(const Json answer, co_await execute("query-status", {}, deadline));
  const JsonObject* status = answer.if_object();
  if (status == nullptr) co_return fail(Code::invalid_argument, "query-status: not an object");
  SPACE_CO_TRY(const auto running, bool_member(*status, "running"));
  SPACE_CO_TRY(std::string state, require_text(*status, "status"));
  if (!running || state.size() > state_name_limit_bytes) {
    co_return fail(Code::invalid_argument, "query-status: not a run state");
  }
  co_return VmStatus{*running, std::move(state)};
}

Task<Result<std::string>> Qmp::console_text(Deadline deadline) {
  JsonObject arguments{{"device", "console"}, {"size", console_bytes}, {"format", "utf8"}};
  SPACE_CO_TRY(const Json answer, co_await execute("ringbuf-read", std::move(arguments), deadline));
  if (!answer.is_string()) co_return fail(Code::invalid_argument, "ringbuf-read: not a string");
  co_return std::string(answer.get_string());
}

Task<Result<std::string>> Qmp::save_device_state(Deadline deadline) {
  SPACE_CO_TRY(StateFile file, StateFile::make());
  SPACE_CO_TRY(const PassedFd passed, co_await PassedFd::pass(session_, std::move(file.writer), deadline));
  // The name is of another hypervisor, whose toolstack saves memory itself just as we do.
  JsonObject arguments{{"filename", passed.path()}, {"live", false}};
  SPACE_CO_CHECK(co_await execute("xen-save-devices-state", std::move(arguments), deadline));
  co_return file.content();
}

Task<Result<void>> Qmp::load_device_state(Fd state, Deadline deadline) {
  SPACE_CO_TRY(const PassedFd passed, co_await PassedFd::pass(session_, std::move(state), deadline));
  // Without exit-on-error=false a QEMU that cannot load would end, and its reason with it.
  JsonObject arguments{{"uri", "file:" + passed.path()}, {"exit-on-error", false}};
  SPACE_CO_CHECK(co_await execute("migrate-incoming", std::move(arguments), deadline));
  while (true) {
    SPACE_CO_TRY(const bool loaded, co_await is_loaded(deadline));
    if (loaded) co_return Result<void>();
    if (deadline.passed()) co_return fail(Code::deadline, "QEMU did not load the device state in time");
    co_await sleep_for(load_poll_interval);
  }
}

Task<Result<bool>> Qmp::is_loaded(Deadline deadline) {
  SPACE_CO_TRY(const Json answer, co_await execute("query-migrate", {}, deadline));
  const JsonObject* progress = answer.if_object();
  if (progress == nullptr) co_return fail(Code::invalid_argument, "query-migrate: not an object");
  SPACE_CO_TRY(const auto status, text_member(*progress, "status"));
  if (status == "failed" || status == "cancelled") {
    SPACE_CO_TRY(const auto reason, text_member(*progress, "error-desc"));
    co_return fail(Code::invalid_argument, "QEMU did not take the device state: {}",
                   reason.value_or(*status).substr(0, reason_limit_bytes));
  }
  co_return status == "completed";
}

}  // namespace space::vmm
