#include "priv/vmm_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "priv/folder.h"

namespace space::priv {
namespace {

constexpr std::size_t record_bytes_max = 4096;

struct flock whole_file() {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

bool supervisor_lives(const Layout& layout, const std::string& id) {
  const auto lock = open_fd(layout.vmm(id) + "/lock", O_RDWR | O_NOFOLLOW);
  if (!lock) return false;
  struct flock range = whole_file();
  return ::fcntl(lock->get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

std::optional<VmmExit> read_exit(const Layout& layout, const std::string& id) {
  const auto text = read_file(layout.vmm(id) + "/exit", record_bytes_max);
  if (!text) return std::nullopt;
  return parse_vmm_exit(*text).value_or(VmmExit{});
}

}  // namespace

std::string to_text(const ProcessId& process) {
  return fmt::format("{} {}\n", process.pid, process.start_ticks);
}

Result<ProcessId> parse_process_id(const std::string& text) {
  ProcessId process;
  int end = 0;
  const int found = std::sscanf(text.c_str(), "%d %" SCNu64 "%n", &process.pid, &process.start_ticks, &end);
  if (found != 2 || process.pid < 1 || text.substr(static_cast<std::size_t>(end)) != "\n")
    return fail(Code::internal, "malformed process record");
  return process;
}

std::string to_text(const VmmExit& exit) {
  return fmt::format("known {} signal {} status {} oom {}\n", exit.known ? 1 : 0, exit.signal, exit.status,
                     exit.out_of_memory ? 1 : 0);
}

Result<VmmExit> parse_vmm_exit(const std::string& text) {
  VmmExit exit;
  int known = 0, out_of_memory = 0, end = 0;
  const int found = std::sscanf(text.c_str(), "known %d signal %d status %d oom %d%n", &known, &exit.signal,
                                &exit.status, &out_of_memory, &end);
  if (found != 4 || text.substr(static_cast<std::size_t>(end)) != "\n")
    return fail(Code::internal, "malformed exit record");
  exit.known = known != 0;
  exit.out_of_memory = out_of_memory != 0;
  return exit;
}

std::string to_text(const VmmFacts& facts) {
  return fmt::format("bundle {} memory_mib {} restored {} slot {}\n", facts.bundle, facts.memory_mib,
                     facts.restored ? 1 : 0, facts.slot);
}

Result<VmmFacts> parse_vmm_facts(const std::string& text) {
  VmmFacts facts;
  char bundle[65] = {};
  int restored = 0, end = 0;
  // Records of before protocol 4 know no slot.
  const int found =
      std::sscanf(text.c_str(), "bundle %64s memory_mib %" SCNu64 " restored %d%n slot %" SCNu64 "%n", bundle,
                  &facts.memory_mib, &restored, &end, &facts.slot, &end);
  facts.bundle = bundle;
  if (found < 3 || !is_digest(facts.bundle) || text.substr(static_cast<std::size_t>(end)) != "\n")
    return fail(Code::internal, "malformed launch record");
  facts.restored = restored != 0;
  return facts;
}

VmmStatus vmm_status(const Layout& layout, const std::string& id) {
  // The lock before the files: a supervisor that is found gone has written all it will ever write.
  const bool supervised = supervisor_lives(layout, id);
  if (::access(layout.vmm(id).c_str(), F_OK) != 0) return {};
  if (const auto exit = read_exit(layout, id)) return {VmmState::exited, {}, *exit};
  const auto text = read_file(layout.vmm(id) + "/pid", record_bytes_max);
  const auto process = text ? parse_process_id(*text) : std::unexpected(text.error());
  if (!process) return {supervised ? VmmState::launching : VmmState::exited, {}, {}};
  if (is_alive(*process)) return {VmmState::running, *process, {}};
  return {supervised ? VmmState::ending : VmmState::exited, *process, {}};
}

Result<Fd> begin_vmm_record(const Layout& layout, const std::string& id) {
  SPACE_CHECK(make_folder(layout.vmm(id), 0700));
  SPACE_TRY(Fd lock, open_fd(layout.vmm(id) + "/lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  struct flock range = whole_file();
  if (::fcntl(lock.get(), F_OFD_SETLK, &range) == 0) return lock;
  if (errno == EAGAIN || errno == EACCES) return fail(Code::conflict, "it has a supervisor already");
  return fail_errno(errno, "lock the VMM's record");
}

Result<Fd> create_vmm_log(const Layout& layout, const std::string& id) {
  return open_fd(layout.vmm(id) + "/log", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
}

namespace {

// Whole or not at all, but not forced to the disk: a process does not outlive the machine's memory.
Result<void> write_record(const std::string& path, const std::string& text) {
  {
    SPACE_TRY(const Fd file, open_fd(path + ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
    SPACE_CHECK(write_all(file.get(), as_bytes(text)));
  }
  if (::rename((path + ".new").c_str(), path.c_str()) != 0) return fail_errno(errno, "write " + path);
  return {};
}

}  // namespace

Result<void> record_vmm_launch(const Layout& layout, const std::string& id, const VmmFacts& facts) {
  return write_record(layout.vmm(id) + "/launch", to_text(facts));
}

Result<VmmFacts> read_vmm_launch(const Layout& layout, const std::string& id) {
  SPACE_TRY(const std::string text, read_file(layout.vmm(id) + "/launch", record_bytes_max));
  return parse_vmm_facts(text);
}

Result<void> record_vmm_process(const Layout& layout, const std::string& id, const ProcessId& process) {
  return write_record(layout.vmm(id) + "/pid", to_text(process));
}

Result<void> record_vmm_jail(const Layout& layout, const std::string& id, const Worn& worn) {
  return write_record(layout.vmm(id) + "/jail", to_text(worn));
}

Result<Worn> read_vmm_jail(const Layout& layout, const std::string& id) {
  SPACE_TRY(const std::string text, read_file(layout.vmm(id) + "/jail", record_bytes_max));
  return parse_worn(text);
}

Result<void> record_vmm_exit(const Layout& layout, const std::string& id, const VmmExit& exit) {
  return write_file_durably(layout.vmm(id) + "/exit", to_text(exit), 0600);
}

Result<void> remove_vmm_record(const Layout& layout, const std::string& id) {
  const std::string folder = layout.vmm(id);
  // "lock" goes last but one: without it the record reads as exited, never as running.
  for (const char* name :
       {"log", "launch.new", "launch", "jail.new", "jail", "pid.new", "pid", "exit.new", "exit", "lock"})
    if (::unlink((folder + "/" + name).c_str()) != 0 && errno != ENOENT)
      return fail_errno(errno, fmt::format("remove {} of the VMM's record", name));
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove the VMM's record");
  return {};
}

}  // namespace space::priv
