// Daemon: the parts of space-daemon wired together, for each of its three modes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <optional>

#include "guest/channel_service.h"
#include "guest/local_service.h"
#include "guest/settings_file.h"

namespace space::guest {

class Daemon {
 public:
  explicit Daemon(boost::asio::io_context& loop);

  GuestState& state() { return state_; }
  // Goes on where the daemon that was in this process left off; before anything is served. A handover that
  // cannot be read is logged: then nothing is known of the programs that run, and their outputs are read and
  // dropped.
  void resume(Fd handover);
  // Serves the private channel for ever; the machine's programs live in cgroups below `cgroup_root`.
  Result<void> serve_channel(const std::string& cgroup_root, bool is_init,
                             std::vector<std::string> arguments);
  // The same on a unix socket at `path`, one host at a time, without cgroups, clock or disk of a machine. For
  // tests.
  Result<void> serve_channel_socket(const std::string& path, std::vector<std::string> arguments);
  // Serves the HTTP API alone, without a VM.
  Result<void> serve_tcp(const std::string& address, std::uint16_t port);

 private:
  Task<void> run_channel(bool is_init);
  Task<void> run_channel_socket(std::unique_ptr<Listener> listener);
  Task<void> stop_soon(bool reboot, bool is_init);
  // The doors for programs of the sandbox: the HTTP API on its loopback, and guest.sock.
  void serve_programs();

  boost::asio::io_context& loop_;
  Executor executor_;
  GuestState state_;
  ProcessTable table_;
  HttpService http_;
  std::optional<SettingsFile> settings_;
  std::optional<Cgroups> cgroups_;
  std::optional<DiskFreezer> disk_;
  bool resumed_ = false;
  std::vector<Fd> unknown_;  // inherited, kept open
  std::optional<ControlCalls> calls_;
  std::optional<ChannelService> channel_;
  std::optional<LocalService> local_;
};

}  // namespace space::guest
