#include "noded/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/log.h"
#include "priv/jail.h"

namespace space::noded {
namespace {

constexpr std::size_t connections_max = 16;
constexpr std::size_t waiting_max = 256;
constexpr std::size_t working_max = 64;

Result<void> send_answer(int connection, const Call& call, const Result<Answer>& result) {
  const Reply reply =
      result ? make_reply(call.sequence, result->values) : make_reply(call.sequence, result.error());
  const std::span<const Fd> descriptors =
      result ? std::span<const Fd>(result->descriptors) : std::span<const Fd>();
  return send(connection, std::as_bytes(std::span(&reply, 1)), descriptors);
}

// "Not there", "still running" and the like are answers; the rest somebody should look at.
void log_failure(const Call& call, const Error& error) {
  const bool is_fault =
      error.code == Code::internal || error.code == Code::exhausted || error.code == Code::permission_denied;
  log::write(is_fault ? log::Level::warn : log::Level::debug, "verb failed",
             {{"verb", shape_of(call.verb)->name}, {"id", call.key()}, log::Field(error)});
}

void reap_children() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

Result<void> Server::run() {
  while (true) {
    std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Work& work : working_) watched.push_back({work.worker.get(), POLLIN, 0});
    for (const Connection& connection : connections_) watched.push_back({connection.fd.get(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "poll");
    }
    const auto is_ready = [&](const Fd& fd) {
      return std::ranges::any_of(watched,
                                 [&](const pollfd& p) { return p.fd == fd.get() && p.revents != 0; });
    };
    if (is_ready(signals_) && !read_signals()) return {};
    // Decided before anything is opened or closed, when a number may come to mean another descriptor.
    std::vector<Work*> heard;
    for (Work& work : working_)
      if (is_ready(work.worker)) heard.push_back(&work);
    std::vector<std::uint64_t> readable;
    for (const Connection& connection : connections_)
      if (is_ready(connection.fd)) readable.push_back(connection.number);
    const bool knocked = is_ready(listener_);
    for (Work* work : heard) hear(*work);
    start_waiting();
    for (const std::uint64_t number : readable)
      if (Connection* connection = find(number)) serve(*connection);
    if (knocked) accept_client();
    std::erase_if(connections_, [](const Connection& connection) { return !connection.fd; });
  }
}

bool Server::read_signals() {
  signalfd_siginfo info{};
  bool go_on = true;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD)
      reap_children();
    else
      go_on = false;
  }
  return go_on;
}

void Server::accept_client() {
  auto accepted = accept_connection(listener_.get());
  if (!accepted) return log::error("cannot accept", {log::Field(accepted.error())});
  if (!*accepted) return;
  const auto uid = peer_uid((*accepted)->get());
  const auto client = uid ? clients_.find(*uid) : clients_.end();
  if (client == clients_.end()) {
    return log::warn("connection refused", {{"uid", uid ? static_cast<std::int64_t>(*uid) : -1}});
  }
  if (connections_.size() >= connections_max) return log::warn("connection refused: too many");
  connections_.push_back({++connection_count_, *std::move(*accepted), client->second});
}

void Server::serve(Connection& connection) {
  auto datagram = receive(connection.fd.get(), sizeof(Request) + 1);  // one more, so that longer ones show
  if (!datagram) return connection.fd.reset();
  if (*datagram) handle(connection, **std::move(datagram));
}

void Server::handle(Connection& connection, Datagram datagram) {
  auto call = Gate::admit(datagram.bytes, datagram.descriptors.size(), connection.client);
  if (datagram.truncated) call = fail(Code::invalid_argument, "the request is too large");
  if (!call) {
    log::warn("request refused", {log::Field(call.error())});
    return refuse(connection, sequence_of(datagram.bytes), call.error());
  }
  schedule({connection.number, *std::move(call), std::move(datagram.descriptors)});
}

void Server::schedule(Work work) {
  const bool is_full = working_.size() >= working_max && !shape_of(work.call.verb)->at_once;
  const bool has_to_wait = is_busy(work.call) || is_full;
  if (!has_to_wait) return start(std::move(work));
  if (waiting_.size() < waiting_max) return waiting_.push_back(std::move(work));
  answer(work.connection, work.call, fail(Code::exhausted, "too many calls are waiting"));
}

bool Server::is_busy(const Call& call) const {
  const std::string key = call.key();
  const auto has_key = [&](const Work& work) { return work.call.key() == key; };
  return !key.empty() && (std::ranges::any_of(working_, has_key) || std::ranges::any_of(waiting_, has_key));
}

void Server::start(Work work) {
  if (auto prepared = verbs_.prepare(work.call); !prepared)
    return answer(work.connection, work.call, std::unexpected(prepared.error()));
  if (shape_of(work.call.verb)->at_once) {
    return verbs_.run(work.call, std::move(work.descriptors),
                      [&](Result<Answer> result) { answer(work.connection, work.call, std::move(result)); });
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return answer(work.connection, work.call, fail_errno(errno, "start a worker"));
  work.worker.reset(ends[0]);
  Fd report(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) run_worker(std::move(work), std::move(report), parent);
  if (pid < 0) {
    answer(work.connection, work.call, fail_errno(errno, "start a worker"));
    return verbs_.settle(work.call);
  }
  work.descriptors.clear();
  working_.push_back(std::move(work));
}

// A worker answers for itself, on the connection it has inherited.
void Server::run_worker(Work work, Fd report, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // half-made things are the next process's to remove
  if (::getppid() != parent) ::_exit(1);
  keep_only(work.connection);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const Connection* connection = find(work.connection);
  if (const auto kept = priv::keep_capabilities(shape_of(work.call.verb)->capabilities); !kept) ::_exit(1);
  verbs_.run(work.call, std::move(work.descriptors), [&](Result<Answer> result) {
    if (!result) log_failure(work.call, result.error());
    const bool sent = connection != nullptr && send_answer(connection->fd.get(), work.call, result);
    (void)!::write(report.get(), sent ? "+" : "-", 1);
    if (result && (result->closed_late || result->goes_on)) report.reset();  // to the process it has ended
  });
  ::_exit(0);
}

// A worker has its call, its descriptors and the connection to answer on. With the listener open nobody would
// be refused after this process's death, nor served.
void Server::keep_only(std::uint64_t connection) {
  listener_.reset();
  signals_.reset();
  working_.clear();
  waiting_.clear();
  std::erase_if(connections_, [&](const Connection& other) { return other.number != connection; });
}

// A report, or the end of the worker, or of its interest in us.
void Server::hear(Work& work) {
  char report = 0;
  if (::read(work.worker.get(), &report, 1) == 1) {
    work.answered = true;
    if (report == '-')  // the client reads nothing, or has gone
      if (Connection* connection = find(work.connection)) connection->fd.reset();
    return;
  }
  if (!work.answered)
    answer(work.connection, work.call, fail(Code::internal, "the worker ended without an answer"));
  verbs_.settle(work.call);
  working_.remove_if([&](const Work& other) { return &other == &work; });
}

void Server::start_waiting() {
  // Each is put to the test again in its order; those that still have to wait keep it.
  for (std::deque<Work> candidates = std::exchange(waiting_, {}); !candidates.empty(); candidates.pop_front())
    schedule(std::move(candidates.front()));
}

Server::Connection* Server::find(std::uint64_t number) {
  for (Connection& connection : connections_)
    if (connection.number == number && connection.fd) return &connection;
  return nullptr;
}

void Server::answer(std::uint64_t connection, const Call& call, Result<Answer> result) {
  if (!result) log_failure(call, result.error());
  Connection* to = find(connection);
  if (to != nullptr && !send_answer(to->fd.get(), call, result)) to->fd.reset();
}

void Server::refuse(Connection& connection, std::uint64_t sequence, const Error& error) {
  const Reply reply = make_reply(sequence, error);
  if (!send(connection.fd.get(), std::as_bytes(std::span(&reply, 1)), {})) connection.fd.reset();
}

}  // namespace space::noded
