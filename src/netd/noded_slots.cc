#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "api/noded.h"
#include "net/noded_link.h"
#include "netd/slot_source.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;

constexpr Millis reconnect_pause = 50ms;
constexpr std::size_t list_limit_bytes = std::size_t{64} << 20;
constexpr std::size_t sockets_of_slot = 4;

template <std::size_t n>
std::string take(const char (&field)[n]) {
  return std::string(field, ::strnlen(field, n));
}

Error error_of(const noded::Reply& reply) {
  const auto code = reply.status - 1;
  return {code <= static_cast<std::uint32_t>(Code::internal) ? static_cast<Code>(code) : Code::internal,
          take(reply.message)};
}

// Ids of the slots among what the node manager lists.
Result<std::vector<std::string>> slots_in(const Fd& file) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return fail_errno(errno, "size of the list");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > list_limit_bytes) return fail(Code::exhausted, "the node manager lists too much");
  std::vector<std::string> ids;
  for (std::size_t at = 0; at + sizeof(noded::ListRecord) <= size; at += sizeof(noded::ListRecord)) {
    noded::ListRecord record{};
    const ssize_t n = ::pread(file.get(), &record, sizeof record, static_cast<off_t>(at));
    if (n != static_cast<ssize_t>(sizeof record)) return fail_errno(n < 0 ? errno : EIO, "read the list");
    if (record.kind == noded::Kind::slot) ids.push_back(take(record.id));
  }
  return ids;
}

class NodedSlots final : public SlotSource {
 public:
  NodedSlots(Executor executor, std::string socket_path)
      : executor_(std::move(executor)), socket_path_(std::move(socket_path)) {}
  ~NodedSlots() override {
    if (link_) link_->close();
  }

  Task<Result<std::vector<std::string>>> list(Deadline deadline) override {
    SPACE_CO_TRY(const std::vector<Fd> files, co_await call(noded::Verb::list, {}, 1, deadline));
    co_return slots_in(files.front());
  }

  Task<Result<SlotSockets>> open(std::string id, Deadline deadline) override {
    SPACE_CO_TRY(std::vector<Fd> fds,
                 co_await call(noded::Verb::slot_open, std::move(id), sockets_of_slot, deadline));
    co_return SlotSockets{std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), std::move(fds[3])};
  }

 private:
  Task<Result<std::vector<Fd>>> call(noded::Verb verb, std::string id, std::size_t expected,
                                     Deadline deadline) {
    noded::Request request{};
    request.protocol = noded::protocol;
    request.verb = verb;
    id.copy(request.sandbox, sizeof request.sandbox - 1);
    while (true) {
      if (!link_ || link_->broken()) link_ = NodedLink::connect(executor_, socket_path_);
      if (!link_) {
        const int error = errno;
        if (deadline.passed())
          co_return fail(Code::unavailable, "the node manager is not running: {}", std::strerror(error));
        co_await sleep_for(std::min(reconnect_pause, deadline.left() + 1ms));
        continue;
      }
      request.sequence = ++sequence_;
      const auto link = link_;
      SPACE_CO_TRY(auto received, co_await link->exchange(request, {}, deadline));
      if (!received) continue;
      if (received->reply.status != 0) co_return std::unexpected(error_of(received->reply));
      if (received->fds.size() != expected)
        co_return fail(Code::internal, "the node manager answered with {} descriptors, not {}",
                       received->fds.size(), expected);
      co_return std::move(received->fds);
    }
  }

  Executor executor_;
  std::string socket_path_;
  std::shared_ptr<NodedLink> link_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<SlotSource> make_noded_slots(const Executor& executor, std::string socket_path) {
  return std::make_unique<NodedSlots>(executor, std::move(socket_path));
}

}  // namespace space::netd
