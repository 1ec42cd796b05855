#include "sandboxd/fake_noded.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/unix_address.h"
#include "sandboxd/fake_memory.h"

namespace space {
namespace {

using noded::Verb;

constexpr Millis poll(1);

std::string text(const char* field, std::size_t size) {
  return std::string(field, ::strnlen(field, size));
}

struct Incoming {
  noded::Request request{};
  std::vector<Fd> fds;
};

// nullopt: nothing there; an error: the peer is gone.
Result<std::optional<Incoming>> receive(int socket) {
  Incoming incoming;
  iovec data{&incoming.request, sizeof incoming.request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && errno == EAGAIN) return std::nullopt;
  if (size != sizeof incoming.request) return fail(Code::unavailable, "the peer is gone");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
    for (std::size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      incoming.fds.emplace_back(fd);
    }
  return incoming;
}

void send(int socket, const noded::Reply& reply, const std::vector<Fd>& fds) {
  iovec data{const_cast<noded::Reply*>(&reply), sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const int number = fds[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof number, &number, sizeof number);
    }
  }
  ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

}  // namespace

FakeNoded::FakeNoded(Executor executor, std::string socket_path)
    : executor_(std::move(executor)),
      socket_path_(std::move(socket_path)),
      generation_(std::make_shared<int>(0)) {
  start();
}

FakeNoded::~FakeNoded() {
  *generation_ = -1;
  for (auto& [id, held] : sandboxes)
    if (held.vm) held.vm->die(9);
}

void FakeNoded::start() {
  ::unlink(socket_path_.c_str());
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = UnixAddress::of(socket_path_).value();
  if (::bind(listener_.get(), address.get(), address.size()) != 0) std::abort();
  if (::listen(listener_.get(), 8) != 0) std::abort();
  spawn(executor_, "fake noded", listen(generation_));
}

void FakeNoded::restart() {
  ++*generation_;
  snapshots.remove_unfinished();
  start();
}

Task<void> FakeNoded::listen(std::shared_ptr<int> generation) {
  const int mine = *generation;
  while (*generation == mine) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) spawn(executor_, "fake noded connection", serve(std::move(socket), generation));
    co_await sleep_for(poll);
  }
}

Task<void> FakeNoded::serve(Fd socket, std::shared_ptr<int> generation) {
  const int mine = *generation;
  while (*generation == mine) {
    auto incoming = receive(socket.get());
    if (!incoming) break;
    if (!*incoming) {
      co_await sleep_for(poll);
      continue;
    }
    const noded::Request& request = (*incoming)->request;
    verbs.push_back(request.verb);
    const std::size_t nth = verbs.size();
    on_verb(nth, false);
    const std::optional<Error> refused = refuse(request.verb);
    Result<Answer> answer =
        refused ? Result<Answer>(std::unexpected(*refused)) : carry_out(request, std::move((*incoming)->fds));
    on_verb(nth, true);
    noded::Reply reply{};
    reply.protocol = noded::protocol;
    reply.sequence = request.sequence;
    if (answer) {
      std::memcpy(reply.values, answer->values, sizeof reply.values);
    } else {
      reply.status = 1 + static_cast<std::uint32_t>(answer.error().code);
      std::memcpy(reply.message, answer.error().message.data(),
                  std::min(answer.error().message.size(), sizeof reply.message - 1));
    }
    if (*generation == mine) send(socket.get(), reply, answer ? std::move(answer->fds) : std::vector<Fd>());
  }
}

Result<FakeNoded::Answer> FakeNoded::carry_out(const noded::Request& request, std::vector<Fd> fds) {
  const std::string id = text(request.sandbox, sizeof request.sandbox);
  const std::string digest = text(request.digest, sizeof request.digest);
  Answer answer;
  switch (request.verb) {
    case Verb::pool_info:
      answer.values[0] = 1 << 30;
      return answer;
    case Verb::list:
      return list();
    case Verb::template_import: {
      templates.insert(digest);
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
      answer.fds.emplace_back(ends[0]);
      const Fd writer(ends[1]);
      if (!write_all(writer.get(), as_bytes(std::string_view("\0", 1)))) std::abort();
      return answer;
    }
    case Verb::template_open:
      if (!templates.contains(digest)) return fail(Code::not_found, "no such template");
      answer.fds.push_back(make_file(manifest));
      return answer;
    case Verb::template_remove:
      templates.erase(digest);
      return answer;
    case Verb::disk_create:
      if (!templates.contains(digest)) return fail(Code::not_found, "no such template");
      sandboxes[id].disk = true;
      return answer;
    case Verb::disk_restore:
      return restore_disk(sandboxes[id], request);
    case Verb::slot_create:
      if (!sandboxes[id].slot) sandboxes[id].slot_replaced = false;
      sandboxes[id].slot = true;
      return answer;
    case Verb::vmm_launch:
      return launch(sandboxes[id], request, std::move(fds));
    case Verb::snapshot_begin:
    case Verb::snapshot_finish:
    case Verb::snapshot_open:
    case Verb::snapshot_remove:
      return of_snapshot(id, request);
    default:
      return carry_out_on(sandboxes[id], request);
  }
}

Result<FakeNoded::Answer> FakeNoded::carry_out_on(Held& held, const noded::Request& request) {
  const bool runs = held.vm && held.vm->running();
  Answer answer;
  switch (request.verb) {
    case Verb::disk_remove:
      if (runs) return fail(Code::conflict, "a VMM is there");
      held.disk = false;
      held.origin.reset();
      break;
    case Verb::slot_remove:
      if (runs) return fail(Code::conflict, "a VMM is there");
      held.slot = false;
      break;
    case Verb::slot_check:
      if (!held.slot) return fail(Code::not_found, "there is no slot");
      if (held.slot_replaced) return fail(Code::conflict, "the slot is another one");
      answer.values[0] = std::exchange(held.slot_damaged, false) ? 1 : 0;
      break;
    case Verb::vmm_open:
      if (!runs) return fail(Code::not_found, "no VMM runs");
      answer.values[0] = 4242;
      answer.fds.push_back(held.vm->pidfd());
      break;
    case Verb::vmm_kill:
      if (runs) held.vm->die(9);
      break;
    case Verb::vmm_exit:
      if (!held.vm || runs) return fail(Code::not_found, "no exit record");
      answer.values[noded::exit_known] = sees_deaths ? 1 : 0;
      if (sees_deaths) answer.values[noded::exit_signal] = static_cast<std::uint64_t>(held.vm->signal());
      break;
    case Verb::vmm_forget:
      if (runs) return fail(Code::conflict, "it runs");
      held.vm.reset();
      break;
    case Verb::vmm_open_memory:
      if (!runs) return fail(Code::not_found, "no VMM runs");
      answer.fds = held.vm->memory().open();
      break;
    case Verb::vmm_isolation:
      if (!runs) return fail(Code::not_found, "no VMM runs");
      answer.fds.push_back(make_file(isolation));
      break;
    default:
      return fail(Code::invalid_argument, "unknown verb");
  }
  return answer;
}

Result<FakeNoded::Answer> FakeNoded::begin_snapshot(const std::string& id, const noded::Request& request) {
  const std::uint64_t number = request.values[0];
  const bool disk_only = request.values[2] != 0;
  if (!disk_only && !vm(id)) return fail(Code::not_found, "no VMM runs");
  Held& held = sandboxes[id];
  if (!held.disk) return fail(Code::not_found, "there is no disk");
  Answer answer;
  if (disk_only) {
    SPACE_TRY(answer.fds, snapshots.begin_disk(id, number, held.content));
  } else {
    SPACE_TRY(answer.fds, snapshots.begin(id, number, request.values[1], held.launch_memory, held.content));
  }
  return answer;
}

Result<FakeNoded::Answer> FakeNoded::of_snapshot(const std::string& id, const noded::Request& request) {
  const std::uint64_t number = request.values[0];
  Answer answer;
  switch (request.verb) {
    case Verb::snapshot_begin:
      return begin_snapshot(id, request);
    case Verb::snapshot_finish:
      SPACE_CHECK(snapshots.finish(id, number));
      return answer;
    case Verb::snapshot_open: {
      SPACE_TRY(answer.fds, snapshots.open(id, number));
      answer.values[0] = answer.fds.size() == 4 ? 1 : 0;
      return answer;
    }
    default:
      snapshots.remove(id, number);
      return answer;
  }
}

Result<FakeNoded::Answer> FakeNoded::restore_disk(Held& held, const noded::Request& request) {
  if (held.vm && held.vm->running()) return fail(Code::conflict, "a VMM is there");
  const std::string source = text(request.source, sizeof request.source);
  const FakeSnapshots::Snapshot* from = snapshots.finished(source, request.values[0]);
  if (from == nullptr) return fail(Code::not_found, "there is no such snapshot");
  held.disk = true;
  held.content = from->disk;
  held.origin.reset();
  if (from->memory) held.origin = {source, request.values[0]};
  return Answer();
}

// What the VM's memory reads as until written.
Result<Fd> FakeNoded::launch_memory(const Held& held, const noded::Request& request) const {
  const std::uint64_t bytes = request.values[noded::launch_memory_mib] << 20;
  if (request.values[noded::launch_restore] == 0) return make_zeros(bytes);
  if (!held.origin) return fail(Code::not_found, "the disk came from no snapshot");
  const FakeSnapshots::Snapshot* from = snapshots.finished(held.origin->first, held.origin->second);
  if (from == nullptr) return fail(Code::not_found, "the snapshot that the disk came from is gone");
  if (static_cast<std::uint64_t>(::lseek(from->memory.get(), 0, SEEK_END)) != bytes)
    return fail(Code::invalid_argument, "the snapshot's memory has another size");
  return reopen(from->memory, O_RDONLY);
}

// What is on the second and the third disk of the VM.
Result<std::vector<std::string>> FakeNoded::snapshot_disks(const noded::Request& request) const {
  std::vector<std::string> contents;
  const std::string source = text(request.source, sizeof request.source);
  const std::uint64_t second = request.values[noded::launch_second_disk];
  const std::uint64_t third = request.values[noded::launch_third_disk];
  if (source.empty() != (second == 0) || source.empty() != (third == 0))
    return fail(Code::invalid_argument, "two disks of snapshots, or none");
  if (source.empty()) return contents;
  if (request.values[noded::launch_restore] != 0)
    return fail(Code::invalid_argument, "a VM that boots takes disks of snapshots");
  for (const std::uint64_t number : {second, third}) {
    const FakeSnapshots::Snapshot* from = snapshots.finished(source, number);
    if (from == nullptr) return fail(Code::not_found, "there is no such snapshot");
    contents.push_back(from->disk);
  }
  return contents;
}

Result<FakeNoded::Answer> FakeNoded::launch(Held& held, const noded::Request& request, std::vector<Fd> fds) {
  if (fds.size() != 2) return fail(Code::invalid_argument, "two sockets are needed");
  if (!held.disk || !held.slot) return fail(Code::not_found, "disk or slot is missing");
  if (held.vm && !held.vm->running())
    return fail(Code::conflict, "the VMM has ended and is not forgotten yet");
  if (!held.vm) {
    SPACE_TRY(held.snapshot_disks, snapshot_disks(request));
    SPACE_TRY(held.launch_memory, launch_memory(held, request));
    auto memory =
        std::make_unique<FakeMemory>(held.launch_memory, request.values[noded::launch_memory_mib] << 20);
    held.vm = FakeVm::launch(executor_, std::move(fds[0]), std::move(fds[1]), behaviour, std::move(memory),
                             request.values[noded::launch_restore] != 0);
  }
  Answer answer;
  answer.values[0] = 4242;
  answer.fds.push_back(held.vm->pidfd());
  return answer;
}

Result<FakeNoded::Answer> FakeNoded::list() const {
  std::string content;
  const auto add = [&](noded::Kind kind, const std::string& id, std::uint64_t number = 0) {
    noded::ListRecord record{};
    record.kind = kind;
    record.number = number;
    std::memcpy(record.id, id.data(), id.size());
    content.append(reinterpret_cast<const char*>(&record), sizeof record);
  };
  for (const auto& digest : templates) add(noded::Kind::template_, digest);
  for (const auto& [id, held] : sandboxes) {
    if (held.disk) add(noded::Kind::disk, id);
    if (held.slot) add(noded::Kind::slot, id);
    if (held.vm) add(held.vm->running() ? noded::Kind::vmm : noded::Kind::vmm_exited, id);
  }
  for (const auto& [id, numbers] : snapshots.of)
    for (const auto& [number, snapshot] : numbers)
      if (snapshot.finished) add(noded::Kind::snapshot, id, number);
  Answer answer;
  answer.fds.push_back(make_file(content));
  return answer;
}

bool FakeNoded::holds_nothing() const {
  for (const auto& [id, held] : sandboxes)
    if (!held.empty()) return false;
  return true;
}

std::shared_ptr<FakeVm> FakeNoded::vm(const std::string& id) const {
  const auto found = sandboxes.find(id);
  return found != sandboxes.end() && found->second.vm && found->second.vm->running() ? found->second.vm
                                                                                     : nullptr;
}

}  // namespace space
