#include "guest/daemon.h"

#include <csignal>

#include "base/log.h"
#include "guest/init.h"

namespace space::guest {

namespace {

constexpr Millis port_wait{60'000};
constexpr Millis answer_time{50};  // for the host to hear that the machine will stop

Task<void> stop_soon(bool reboot, bool is_init) {
  co_await sleep_for(answer_time);
  co_await run_blocking([=] { stop_machine(reboot, is_init); });
}

}  // namespace

Daemon::Daemon(boost::asio::io_context& loop)
    : loop_(loop),
      executor_(loop.get_executor()),
      state_(executor_),
      table_(executor_),
      http_(state_, table_) {
  std::signal(SIGPIPE, SIG_IGN);
}

Result<void> Daemon::serve_channel(const std::string& cgroup_root, bool is_init) {
  auto cgroups = Cgroups::create(cgroup_root);
  if (!cgroups) return std::unexpected(std::move(cgroups).error());
  cgroups_ = *std::move(cgroups);
  state_.user_cgroup_fd = cgroups_->user_folder();
  state_.reset_oom_score = true;
  calls_.emplace(state_, table_,
                 ControlCalls::Surroundings{.cgroups = &*cgroups_,
                                            .open_tunnels = [this] { return channel_->open_tunnels(); },
                                            .shut_down =
                                                [this, is_init](bool reboot) {
                                                  spawn(executor_, "stop the machine",
                                                        stop_soon(reboot, is_init));
                                                }});
  channel_.emplace(http_, *calls_);
  spawn(executor_, "channel", run_channel(is_init));
  return {};
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
  spawn(executor_, "accept clients", accept_clients(*std::move(listener)));
  return {};
}

Task<void> Daemon::accept_clients(std::unique_ptr<Listener> listener) {
  for (;;) {
    auto client = co_await listener->accept();
    if (client) {
      spawn(executor_, "client", http_.serve(*std::move(client)));
    } else {
      log::warn("cannot accept", {log::Field(client.error())});
      co_await sleep_for(Millis(100));  // out of descriptors: give some time to come back
    }
  }
}

}  // namespace space::guest
