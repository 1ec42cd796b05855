#include "sandboxd/noded_client.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;
using noded::Verb;

constexpr Millis reconnect_pause = 50ms;
constexpr std::size_t manifest_limit_bytes = 1024 * 1024;
constexpr std::size_t list_limit_bytes = 64 * 1024 * 1024;
constexpr std::size_t isolation_limit_bytes = isolation_layers_max * sizeof(noded::IsolationRecord);

static_assert(shape_limits::vcpus_max <= static_cast<std::int64_t>(noded::vcpus_max));
static_assert(shape_limits::memory_mib_min >= static_cast<std::int64_t>(noded::memory_mib_min) &&
              shape_limits::memory_mib_max <= static_cast<std::int64_t>(noded::memory_mib_max));
static_assert(shape_limits::disk_mib_min >= static_cast<std::int64_t>(noded::disk_mib_min) &&
              shape_limits::disk_mib_max <= static_cast<std::int64_t>(noded::disk_mib_max));

template <std::size_t n>
void put(char (&field)[n], std::string_view text) {
  text.copy(field, n - 1);
}

template <std::size_t n>
std::string take(const char (&field)[n]) {
  return std::string(field, ::strnlen(field, n));
}

noded::Request request(Verb verb, std::string_view sandbox = {}, std::string_view digest = {}) {
  noded::Request result{};
  result.protocol = noded::protocol;
  result.verb = verb;
  put(result.sandbox, sandbox);
  put(result.digest, digest);
  return result;
}

Error error_of(const noded::Reply& reply) {
  const auto code = reply.status - 1;
  return {code <= static_cast<std::uint32_t>(Code::internal) ? static_cast<Code>(code) : Code::internal,
          take(reply.message)};
}

// A file handed over by descriptor, from its beginning whatever its offset.
Result<std::string> read_whole(const Fd& fd, std::size_t limit_bytes) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return fail_errno(errno, "size of a received file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > limit_bytes)
    return fail(Code::exhausted, "a received file is larger than {} bytes", limit_bytes);
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd.get(), content.data() + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read a received file");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);
  return content;
}

// The writer of the pipe reports one byte: 0 or an errno. No byte: it died.
Task<Result<void>> await_outcome(Fd fd, std::string what) {
  namespace asio = boost::asio;
  asio::posix::stream_descriptor pipe(co_await asio::this_coro::executor, fd.release());
  std::uint8_t outcome = 0;
  auto [error, size] =
      co_await pipe.async_read_some(asio::buffer(&outcome, 1), asio::as_tuple(asio::use_awaitable));
  if (error || size != 1) co_return fail(Code::internal, "{}: the worker ended without a result", what);
  if (outcome != 0) co_return fail_errno(outcome, what);
  co_return Result<void>();
}

void add(KernelHoldings& holdings, const noded::ListRecord& record) {
  std::string id = take(record.id);
  switch (record.kind) {
    case noded::Kind::template_:
      holdings.templates.push_back(std::move(id));
      break;
    case noded::Kind::disk:
      holdings.sandboxes[id].disk = true;
      break;
    case noded::Kind::slot:
      holdings.sandboxes[id].slot = true;
      break;
    case noded::Kind::vmm:
      holdings.sandboxes[id].vmm = true;
      break;
    case noded::Kind::vmm_exited:
      holdings.sandboxes[id].vmm_exit = true;
      break;
    case noded::Kind::snapshot:
      holdings.snapshots[id].push_back(record.number);
      break;
  }
}

}  // namespace

std::string describe(const VmmExit& exit) {
  if (!exit.known) return "its VMM ended and nobody saw why";
  if (exit.out_of_memory) return "its VMM ran out of memory";
  if (exit.signal != 0) return fmt::format("its VMM was killed by signal {}", exit.signal);
  if (exit.status == 0) return "the guest powered off";
  return fmt::format("its VMM exited with status {}", exit.status);
}

NodedClient::NodedClient(Executor executor, std::string socket_path, IoLimits limits)
    : executor_(std::move(executor)), socket_path_(std::move(socket_path)), limits_(limits) {}

NodedClient::~NodedClient() {
  if (link_) link_->close();
}

Task<Result<NodedClient::Answer>> NodedClient::call(noded::Request request, std::vector<int> fds,
                                                    std::size_t expected, Deadline deadline) {
  while (true) {
    if (!link_ || link_->broken()) link_ = NodedLink::connect(executor_, socket_path_);
    if (!link_) {
      const int error = errno;
      if (deadline.passed())
        co_return fail(Code::unavailable, "the node manager is not running: {}", strerror(error));
      co_await sleep_for(std::min(reconnect_pause, deadline.left() + 1ms));
      continue;
    }
    request.sequence = ++sequence_;
    const auto link = link_;
    SPACE_CO_TRY(auto received, co_await link->exchange(request, fds, deadline));
    if (!received) continue;
    if (received->reply.status != 0) co_return std::unexpected(error_of(received->reply));
    Answer answer;
    std::ranges::copy(received->reply.values, answer.values);
    answer.fds = std::move(received->fds);
    if (expected != any_number && answer.fds.size() != expected)
      co_return fail(Code::internal, "the node manager answered with {} descriptors, not {}",
                     answer.fds.size(), expected);
    co_return answer;
  }
}

Task<Result<void>> NodedClient::command(noded::Request request, Deadline deadline) {
  SPACE_CO_CHECK(co_await call(request, {}, 0, deadline));
  co_return Result<void>();
}

Task<Result<PoolInfo>> NodedClient::pool_info(Deadline deadline) {
  SPACE_CO_TRY(const Answer answer, co_await call(request(Verb::pool_info), {}, 0, deadline));
  co_return PoolInfo{answer.values[0], answer.values[1]};
}

Task<Result<KernelHoldings>> NodedClient::list(Deadline deadline) {
  SPACE_CO_TRY(const Answer answer, co_await call(request(Verb::list), {}, 1, deadline));
  SPACE_CO_TRY(const std::string content, read_whole(answer.fds[0], list_limit_bytes));
  KernelHoldings holdings;
  for (std::size_t at = 0; at + sizeof(noded::ListRecord) <= content.size();
       at += sizeof(noded::ListRecord)) {
    noded::ListRecord record;
    std::memcpy(&record, content.data() + at, sizeof record);
    add(holdings, record);
  }
  for (auto& [id, numbers] : holdings.snapshots) std::ranges::sort(numbers);
  co_return holdings;
}

Task<Result<void>> NodedClient::template_import(std::string digest, Deadline deadline) {
  SPACE_CO_TRY(Answer answer, co_await call(request(Verb::template_import, {}, digest), {}, 1, deadline));
  co_return co_await with_deadline(await_outcome(std::move(answer.fds[0]), "import template " + digest),
                                   deadline, "import of template " + digest);
}

Task<Result<std::string>> NodedClient::template_manifest(std::string digest, Deadline deadline) {
  SPACE_CO_TRY(const Answer answer, co_await call(request(Verb::template_open, {}, digest), {}, 1, deadline));
  co_return read_whole(answer.fds[0], manifest_limit_bytes);
}

Task<Result<void>> NodedClient::template_remove(std::string digest, Deadline deadline) {
  return command(request(Verb::template_remove, {}, digest), deadline);
}

Task<Result<void>> NodedClient::disk_create(std::string id, std::string digest, std::int64_t disk_mib,
                                            Deadline deadline) {
  auto message = request(Verb::disk_create, id, digest);
  message.values[0] = static_cast<std::uint64_t>(disk_mib);
  return command(message, deadline);
}

Task<Result<void>> NodedClient::disk_remove(std::string id, Deadline deadline) {
  return command(request(Verb::disk_remove, id), deadline);
}

Task<Result<void>> NodedClient::disk_restore(std::string id, std::string source, std::uint64_t number,
                                             Deadline deadline) {
  auto message = request(Verb::disk_restore, id);
  put(message.source, source);
  message.values[0] = number;
  return command(message, deadline);
}

Task<Result<void>> NodedClient::slot_create(std::string id, Deadline deadline) {
  auto message = request(Verb::slot_create, id);
  message.values[0] = static_cast<std::uint64_t>(limits_.network_mbit_per_s);
  return command(message, deadline);
}

Task<Result<void>> NodedClient::slot_remove(std::string id, Deadline deadline) {
  return command(request(Verb::slot_remove, id), deadline);
}

Task<Result<bool>> NodedClient::slot_check(std::string id, Deadline deadline) {
  auto message = request(Verb::slot_check, id);
  message.values[0] = static_cast<std::uint64_t>(limits_.network_mbit_per_s);
  SPACE_CO_TRY(const Answer answer, co_await call(message, {}, 0, deadline));
  co_return answer.values[0] != 0;
}

Task<Result<Vmm>> NodedClient::vmm_launch(std::string id, effect::LaunchVmm machine, std::uint64_t tsc_khz,
                                          int qmp_listener, int channel_listener, Deadline deadline) {
  auto message = request(Verb::vmm_launch, id);
  message.values[noded::launch_vcpus] = static_cast<std::uint64_t>(machine.vcpus);
  message.values[noded::launch_memory_mib] = static_cast<std::uint64_t>(machine.memory_mib);
  message.values[noded::launch_accelerator] = static_cast<std::uint64_t>(
      machine.accelerator == MachineAccelerator::kvm ? noded::Accelerator::kvm : noded::Accelerator::tcg);
  message.values[noded::launch_tsc_khz] = tsc_khz;
  message.values[noded::launch_disk_mib_per_s] = static_cast<std::uint64_t>(limits_.disk_mib_per_s);
  message.values[noded::launch_disk_iops] = static_cast<std::uint64_t>(limits_.disk_iops);
  message.values[noded::launch_restore] = machine.restore ? 1 : 0;
  message.values[noded::launch_zero_free_pages] = machine.zero_free_pages ? 1 : 0;
  if (machine.disks) {
    put(message.source, machine.disks->sandbox);
    message.values[noded::launch_second_disk] = machine.disks->first;
    message.values[noded::launch_third_disk] = machine.disks->second;
  }
  SPACE_CO_TRY(Answer answer, co_await call(message, {qmp_listener, channel_listener}, 1, deadline));
  co_return Vmm{std::move(answer.fds[0]), static_cast<pid_t>(answer.values[0])};
}

Task<Result<Vmm>> NodedClient::vmm_open(std::string id, Deadline deadline) {
  SPACE_CO_TRY(Answer answer, co_await call(request(Verb::vmm_open, id), {}, 1, deadline));
  co_return Vmm{std::move(answer.fds[0]), static_cast<pid_t>(answer.values[0])};
}

Task<Result<void>> NodedClient::vmm_kill(std::string id, Deadline deadline) {
  return command(request(Verb::vmm_kill, id), deadline);
}

Task<Result<VmmExit>> NodedClient::vmm_exit(std::string id, Deadline deadline) {
  SPACE_CO_TRY(const Answer answer, co_await call(request(Verb::vmm_exit, id), {}, 0, deadline));
  co_return VmmExit{answer.values[noded::exit_known] != 0,
                    static_cast<int>(answer.values[noded::exit_signal]),
                    static_cast<int>(answer.values[noded::exit_status]), answer.values[noded::exit_oom] != 0};
}

Task<Result<void>> NodedClient::vmm_forget(std::string id, Deadline deadline) {
  return command(request(Verb::vmm_forget, id), deadline);
}

Task<Result<std::vector<IsolationLayer>>> NodedClient::vmm_isolation(std::string id, Deadline deadline) {
  SPACE_CO_TRY(const Answer answer, co_await call(request(Verb::vmm_isolation, id), {}, 1, deadline));
  SPACE_CO_TRY(const std::string content, read_whole(answer.fds[0], isolation_limit_bytes));
  co_return decode_isolation(content);
}

Task<Result<VmmMemory>> NodedClient::vmm_open_memory(std::string id, Deadline deadline) {
  SPACE_CO_TRY(Answer answer, co_await call(request(Verb::vmm_open_memory, id), {}, 3, deadline));
  co_return VmmMemory{std::move(answer.fds[0]), std::move(answer.fds[1]), std::move(answer.fds[2])};
}

Task<Result<SnapshotFiles>> NodedClient::snapshot_begin(std::string id, std::uint64_t number,
                                                        std::uint64_t previous, Deadline deadline) {
  auto message = request(Verb::snapshot_begin, id);
  message.values[0] = number;
  message.values[1] = previous;
  SPACE_CO_TRY(Answer answer, co_await call(message, {}, 3, deadline));
  co_return SnapshotFiles{.memory = std::move(answer.fds[0]),
                          .state = std::move(answer.fds[1]),
                          .manifest = std::move(answer.fds[2]),
                          .disk = Fd()};
}

Task<Result<Fd>> NodedClient::snapshot_begin_disk(std::string id, std::uint64_t number, Deadline deadline) {
  auto message = request(Verb::snapshot_begin, id);
  message.values[0] = number;
  message.values[2] = 1;
  SPACE_CO_TRY(Answer answer, co_await call(message, {}, 1, deadline));
  co_return std::move(answer.fds[0]);
}

Task<Result<void>> NodedClient::snapshot_finish(std::string id, std::uint64_t number, Deadline deadline,
                                                bool goes_on) {
  auto message = request(Verb::snapshot_finish, id);
  message.values[0] = number;
  message.values[1] = goes_on ? 1 : 0;
  return command(message, deadline);
}

Task<Result<SnapshotFiles>> NodedClient::snapshot_open(std::string id, std::uint64_t number,
                                                       Deadline deadline) {
  auto message = request(Verb::snapshot_open, id);
  message.values[0] = number;
  SPACE_CO_TRY(Answer answer, co_await call(message, {}, any_number, deadline));
  const std::size_t of_memory = answer.values[0] != 0 ? 2 : 0;
  if (answer.fds.size() != of_memory + 2)
    co_return fail(Code::internal, "the node manager answered with {} files of a snapshot",
                   answer.fds.size());
  SnapshotFiles files;
  if (of_memory != 0) {
    files.memory = std::move(answer.fds[0]);
    files.state = std::move(answer.fds[1]);
  }
  files.manifest = std::move(answer.fds[of_memory]);
  files.disk = std::move(answer.fds[of_memory + 1]);
  co_return files;
}

Task<Result<void>> NodedClient::snapshot_remove(std::string id, std::uint64_t number, Deadline deadline) {
  auto message = request(Verb::snapshot_remove, id);
  message.values[0] = number;
  return command(message, deadline);
}

}  // namespace space
