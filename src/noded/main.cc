// space-noded: the node manager, the one process that runs as root.
#include <pwd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/deadline.h"
#include "base/log.h"
#include "noded/confinement.h"
#include "noded/options.h"
#include "noded/server.h"
#include "noded/unmount.h"
#include "priv/folder.h"
#include "priv/process.h"

namespace space::noded {
namespace {

using namespace std::chrono_literals;

Result<void> require_root() {
  if (::geteuid() == 0) return {};
  return fail(Code::permission_denied, "space-noded must be started as root");
}

Result<void> make_folders(const priv::Layout& layout) {
  SPACE_CHECK(priv::make_folder(layout.home(), 0751));  // the client reaches the socket in it, nothing else
  SPACE_CHECK(priv::make_folder(layout.slots(), 0700));
  return priv::make_folder(layout.vmms(), 0700);
}

// One process per instance. Workers inherit the lock: those of a killed predecessor, on their way out,
// are waited for, so that they cannot add to what is being cleaned up.
Result<Fd> take_instance(const priv::Layout& layout) {
  SPACE_TRY(Fd lock, open_fd(layout.lock(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  const Deadline deadline = Deadline::after(2s);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "lock the instance");
    if (deadline.passed()) return fail(Code::conflict, "another space-noded serves {}", layout.run);
    ::usleep(10'000);
  }
  return lock;
}

Result<Fd> block_signals() {
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&handled, signal);
  if (::sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return fail_errno(errno, "block signals");
  Fd signals(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return fail_errno(errno, "signalfd");
  return signals;
}

gid_t group_of(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry == nullptr ? uid : entry->pw_gid;
}

// Several daemons share no group: then everybody may knock, and who it is decides.
mode_t socket_mode(const Options& options) {
  return options.clients.size() > 1 ? 0666 : 0660;
}

Result<void> serve(const Options& options) {
  // VMs' supervisors that lose their parent come to this process, which reaps them whatever PID 1 does.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail_errno(errno, "become a subreaper");
  SPACE_TRY(Fd signals, block_signals());  // first: a stop asked for meanwhile is a clean one
  SPACE_TRY(Verbs verbs, Verbs::open(options.layout, options.settings));
  SPACE_TRY(Fd listener, listen_seqpacket(options.layout.socket(), group_of(options.clients.begin()->first),
                                          socket_mode(options)));
  SPACE_CHECK(confine_noded());
  log::info("serving", {{"run", options.layout.run}, {"clients", options.clients.size()}});
  Server server(std::move(listener), std::move(signals), options.clients, verbs);
  SPACE_CHECK(server.run());
  ::unlink(options.layout.socket().c_str());
  log::info("stopped");
  return {};
}

Result<void> run(int argc, char** argv) {
  SPACE_TRY(const Options options, parse_options(argc, argv));
  SPACE_CHECK(require_root());
  ::umask(0077);
  SPACE_CHECK(make_folders(options.layout));
  SPACE_TRY(const Fd instance, take_instance(options.layout));
  if (!options.unmount_pool) return serve(options);
  if (options.kill_vms) SPACE_CHECK(kill_everything(options.layout));
  return release_everything(options.layout);
}

}  // namespace
}  // namespace space::noded

int main(int argc, char** argv) {
  space::log::init("space-noded");
  const auto done = space::noded::run(argc, argv);
  if (!done) space::log::error("space-noded failed", {space::log::Field(done.error())});
  return done ? 0 : 1;
}
