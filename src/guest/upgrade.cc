#include "guest/upgrade.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "base/bytes.h"
#include "base/log.h"

namespace space::guest {

namespace {

constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
#ifndef MFD_EXEC
constexpr unsigned memory_file_exec = 0x0010U;  // since Linux 6.3
#else
constexpr unsigned memory_file_exec = MFD_EXEC;
#endif

Result<Fd> make_program_file() {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd file(::memfd_create("space-daemon", flags | memory_file_exec));
  if (!file && errno == EINVAL) file.reset(::memfd_create("space-daemon", flags));
  if (!file) return fail_errno(errno, "make a memory file for the program");
  return file;
}

Result<std::string> read_whole(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail_errno(errno, "stat the handover");
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) > handover_bytes_max)
    return fail(Code::exhausted, "the handover is too large");
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(Code::internal, "the handover cannot be read");
    done += static_cast<std::size_t>(count);
  }
  return text;
}

bool is_pipe_or_terminal(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(fd)));
}

std::vector<int> descriptors_of(const Handover& handover) {
  std::vector<int> result = handover.left_outputs;
  for (const ProcessRecord& record : handover.running)
    for (const int fd : {record.stdin_fd, record.stdout_fd, record.stderr_fd, record.terminal_fd})
      if (fd >= 0) result.push_back(fd);
  return result;
}

void close_on_exec(std::span<const int> descriptors, bool closes) {
  for (const int fd : descriptors) ::fcntl(fd, F_SETFD, closes ? FD_CLOEXEC : 0);
}

}  // namespace

Result<void> Upgrade::begin(const UpgradePiece& piece) {
  *this = Upgrade();
  SPACE_TRY(program_, make_program_file());
  digest_ = piece.sha256;
  size_ = piece.size;
  return {};
}

Result<std::size_t> Upgrade::take(const UpgradePiece& piece) {
  const bool same = program_ && digest_ == piece.sha256 && size_ == piece.size;
  const std::size_t end = piece.offset + piece.data.size();
  if (same && (complete_ || (piece.offset > 0 && end <= received_))) return received_;
  if (piece.offset == 0) {
    SPACE_CHECK(begin(piece));
  } else if (!same || piece.offset != received_) {
    return fail(Code::conflict, "{} bytes of this program are here: go on from there, or from 0",
                same ? received_ : 0);
  }
  SPACE_CHECK(write_all(program_.get(), piece.data));
  hash_.update(piece.data);
  received_ = end;
  if (received_ < size_) return received_;
  if (to_hex(hash_.finish()) != digest_) {
    *this = Upgrade();
    return fail(Code::invalid_argument, "the program is not what 'sha256' says");
  }
  if (::fcntl(program_.get(), F_ADD_SEALS, seals) != 0) return fail_errno(errno, "seal the program");
  complete_ = true;
  return received_;
}

Result<Fd> write_handover(const Handover& handover) {
  Fd file(::memfd_create("space-handover", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail_errno(errno, "make a memory file for the handover");
  SPACE_CHECK(write_all(file.get(), as_bytes(handover_text(handover))));
  if (::fcntl(file.get(), F_ADD_SEALS, seals) != 0) return fail_errno(errno, "seal the handover");
  return file;
}

Result<Handover> read_handover(Fd file) {
  if (::fcntl(file.get(), F_GET_SEALS) != seals)
    return fail(Code::invalid_argument, "the handover is not a sealed memory file");
  SPACE_TRY(const std::string text, read_whole(file.get()));
  SPACE_TRY(Handover handover, parse_handover(text));
  const auto descriptors = descriptors_of(handover);
  for (const int fd : descriptors)
    if (fd == file.get() || !is_pipe_or_terminal(fd))
      return fail(Code::invalid_argument, "descriptor {} is no pipe and no terminal", fd);
  close_on_exec(descriptors, true);
  return handover;
}

Inherited inherited_descriptors(int except) {
  Inherited result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return result;
  std::vector<int> found;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc()) continue;
    if (fd > 2 && fd != except && ::fcntl(fd, F_GETFD) == 0) found.push_back(fd);
  }
  close_on_exec(found, true);
  for (const int fd : found) {
    const bool readable = (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY;
    (readable && is_pipe_or_terminal(fd) ? result.outputs : result.others).emplace_back(fd);
  }
  return result;
}

Error exec_program(int program, std::vector<std::string> arguments, const Handover& handover) {
  auto file = write_handover(handover);
  if (!file) return std::move(file).error();
  std::vector<int> descriptors = descriptors_of(handover);
  descriptors.push_back(file->get());
  arguments.insert(arguments.end(), {"--resume", std::to_string(file->get())});
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  close_on_exec(descriptors, false);
  ::syscall(SYS_execveat, program, "", pointers.data(), environ, AT_EMPTY_PATH);
  const int why = errno;
  close_on_exec(descriptors, true);
  return fail_errno(why, "exec the new program").error();
}

}  // namespace space::guest
