#include "guest/daemon.h"

#include <sys/stat.h>

#include <csignal>
#include <functional>
#include <memory>

#include "base/log.h"
#include "guest/init.h"

namespace space::guest {

namespace {

constexpr Millis port_wait{60'000};
constexpr Millis answer_time{50};  // for the host to hear that the machine will stop

constexpr Millis settings_time{500};  // an answer of the disk, before it is flushed as a whole

constexpr std::size_t tcp_clients_max = 4096;
constexpr std::size_t loopback_clients_max = 256;  // any program of the sandbox may hold some
constexpr int local_queue = 64;

using Serve = std::function<Task<void>(StreamPtr)>;

struct Room {
  explicit Room(const Executor& executor) : left(executor) {}
  std::size_t clients = 0;
  Event left;
};

Task<void> serve_client(std::shared_ptr<Room> room, Task<void> client) {
  co_await std::move(client);
  --room->clients;
  room->left.notify_all();
}

// At most `clients_max` at a time; the others wait in the listener's queue.
Task<void> accept_clients(Executor executor, std::unique_ptr<Listener> listener, std::size_t clients_max,
                          Serve serve) {
  const auto room = std::make_shared<Room>(executor);
  for (;;) {
    while (room->clients >= clients_max) co_await room->left.wait();
    auto client = co_await listener->accept();
    if (client) {
      ++room->clients;
      spawn(executor, "client", serve_client(room, serve(*std::move(client))));
    } else {
      log::warn("cannot accept", {log::Field(client.error())});
      co_await sleep_for(Millis(100));  // out of descriptors: give some time to come back
    }
  }
}

// Every program would inherit what a shell that started us in the background ignores.
void stop_ignoring_signals() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      std::signal(number, SIG_DFL);
  }
}

}  // namespace

Daemon::Daemon(boost::asio::io_context& loop)
    : loop_(loop),
      executor_(loop.get_executor()),
      state_(executor_),
      table_(executor_),
      http_(state_, table_) {
  stop_ignoring_signals();
  std::signal(SIGPIPE, SIG_IGN);
}

void Daemon::resume(Fd file) {
  const int number = file.get();
  auto handover = read_handover(std::move(file));
  if (handover) {
    take_over(*std::move(handover), state_, table_);
    resumed_ = true;
  } else {
    log::error("the handover was not understood: what runs goes on unknown",
               {{"descriptor", number}, log::Field(handover.error())});
  }
  Inherited inherited = inherited_descriptors();
  table_.take_outputs(std::move(inherited.outputs));
  unknown_ = std::move(inherited.others);
}

Result<void> Daemon::serve_channel(const std::string& cgroup_root, bool is_init,
                                   std::vector<std::string> arguments) {
  auto cgroups = Cgroups::create(cgroup_root);
  if (!cgroups) return std::unexpected(std::move(cgroups).error());
  cgroups_ = *std::move(cgroups);
  state_.user_cgroup_fd = cgroups_->user_folder();
  state_.reset_oom_score = true;
  disk_.emplace(executor_);
  settings_.emplace(executor_, state_);
  settings_->hold_back([this] { return disk_->busy(); });
  if (const auto loaded = resumed_ ? Result<void>() : settings_->load();
      !loaded && loaded.error().code != Code::not_found)
    log::warn("settings not taken from the disk", {log::Field(loaded.error())});
  ControlSurroundings around;
  around.arguments = std::move(arguments);
  around.settings_changed = [this] { settings_->save_soon(); };
  around.save_settings = [this](Deadline deadline) { return settings_->flush(deadline); };
  around.cgroups = &*cgroups_;
  around.disk = &*disk_;
  around.open_tunnels = [this] { return channel_->open_tunnels(); };
  around.shut_down = [this, is_init](bool reboot) {
    spawn(executor_, "stop the machine", stop_soon(reboot, is_init));
  };
  around.hang_up = [this](Deadline deadline) { return channel_->hang_up(deadline); };
  around.go_on = [this] { channel_->go_on(); };
  around.serve_clients = [this](StreamPtr client) { return http_.serve(std::move(client)); };
  calls_.emplace(executor_, state_, table_, std::move(around));
  channel_.emplace(executor_, http_, *calls_);
  serve_programs();
  spawn(executor_, "channel", run_channel(is_init));
  return {};
}

Result<void> Daemon::serve_channel_socket(const std::string& path, std::vector<std::string> arguments) {
  auto listener = listen_unix(executor_, path, 0600);
  if (!listener) return std::unexpected(std::move(listener).error());
  ControlSurroundings around;
  around.arguments = std::move(arguments);
  around.open_tunnels = [this] { return channel_->open_tunnels(); };
  around.shut_down = [this](bool) { loop_.stop(); };
  around.hang_up = [this](Deadline deadline) { return channel_->hang_up(deadline); };
  around.go_on = [this] { channel_->go_on(); };
  around.serve_clients = [this](StreamPtr client) { return http_.serve(std::move(client)); };
  around.set_wall_clock = [](std::int64_t) { return Result<std::int64_t>(0); };
  around.add_entropy = [](std::span<const std::byte>) { return Result<void>(); };
  around.flush = [] { return true; };
  calls_.emplace(executor_, state_, table_, std::move(around));
  channel_.emplace(executor_, http_, *calls_);
  spawn(executor_, "channel", run_channel_socket(*std::move(listener)));
  return {};
}

Task<void> Daemon::run_channel_socket(std::unique_ptr<Listener> listener) {
  for (;;) {
    auto host = co_await listener->accept();
    if (!host) co_return loop_.stop();
    log::debug("channel session ended", {log::Field(co_await channel_->serve(*std::move(host)))});
  }
}

// A frozen program cannot heed the request to end.
Task<void> Daemon::stop_soon(bool reboot, bool is_init) {
  co_await sleep_for(answer_time);
  (void)co_await disk_->thaw(Deadline::after(settings_time));
  if (const auto saved = co_await settings_->flush(Deadline::after(settings_time)); !saved)
    log::warn("settings not saved", {log::Field(saved.error())});
  (void)cgroups_->thaw();
  co_await run_blocking([this, reboot, is_init] {
    stop_machine(reboot, is_init, [this] { return !cgroups_->populated().value_or(true); });
  });
}

void Daemon::serve_programs() {
  // Neither is worth a sandbox that does not start: a template may have something else at its place.
  if (auto http = listen_tcp(executor_, "127.0.0.1", daemon_port)) {
    spawn(executor_, "accept on loopback",
          accept_clients(executor_, *std::move(http), loopback_clients_max,
                         [this](StreamPtr client) { return http_.serve(std::move(client)); }));
  } else {
    log::warn("not listening on loopback", {log::Field(http.error())});
  }
  local_.emplace(state_, [this] { return calls_->activity(); });
  ::mkdir("/run/space", 0755);
  if (auto local = listen_unix(executor_, LocalService::socket_path, 0666, local_queue)) {
    spawn(executor_, "accept on guest.sock",
          accept_clients(executor_, *std::move(local), LocalService::connections_max,
                         [this](StreamPtr client) { return local_->serve(std::move(client)); }));
  } else {
    log::warn("no guest.sock", {log::Field(local.error())});
  }
}

Task<void> Daemon::run_channel(bool is_init) {
  auto port = co_await ChannelPort::open(Deadline::after(port_wait));
  if (!port) {
    log::error("no channel", {log::Field(port.error())});
    if (is_init) co_await run_blocking([] { stop_machine(false, true); });
    co_return loop_.stop();
  }
  log::info("serving the channel");
  co_await channel_->run(*std::move(port));
}

Result<void> Daemon::serve_tcp(const std::string& address, std::uint16_t port) {
  auto listener = listen_tcp(executor_, address, port);
  if (!listener) return std::unexpected(std::move(listener).error());
  log::info("listening", {{"address", address}, {"port", (*listener)->port()}});
  spawn(executor_, "accept clients",
        accept_clients(executor_, *std::move(listener), tcp_clients_max,
                       [this](StreamPtr client) { return http_.serve(std::move(client)); }));
  return {};
}

}  // namespace space::guest
