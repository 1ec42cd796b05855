#include "guest/identity.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "base/fd.h"
#include "base/ids.h"

namespace space::guest {

namespace {

constexpr std::size_t file_limit_bytes = 256 * 1024;
constexpr const char* folder = "/run/space";
constexpr const char* disk_folder = "/var/lib/space";
constexpr const char* memory_id_path = "/run/space/sandbox-id";
constexpr const char* disk_id_path = "/var/lib/space/sandbox-id";
constexpr const char* boot_id_path = "/proc/sys/kernel/random/boot_id";
constexpr const char* dbus_id_path = "/var/lib/dbus/machine-id";

// In place and not durable: a crash loses nothing the next identity call does not write again. Over what is
// there instead of emptied first: of a file that was emptied and closed ext4 writes the blocks to the disk at
// once, which a guest that has just been restored waits for.
Result<void> write_plain(const std::string& path, std::string_view content) {
  SPACE_TRY(const Fd fd, open_fd(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, fmt::format("stat {}", path));
  SPACE_CHECK(write_all(fd.get(), as_bytes(content)));
  const auto length = static_cast<off_t>(content.size());
  if (status.st_size > length && ::ftruncate(fd.get(), length) != 0)
    return fail_errno(errno, fmt::format("shorten {}", path));
  return {};
}

std::string read_or_empty(const std::string& path) {
  return read_file(path, file_limit_bytes).value_or("");
}

Result<void> make_folder(const char* path, mode_t mode) {
  if (::mkdir(path, mode) != 0 && errno != EEXIST) return fail_errno(errno, fmt::format("make {}", path));
  return {};
}

// A version 4 UUID, as the kernel writes it.
std::string random_uuid() {
  Bytes bytes = random_bytes(16);
  bytes[6] = (bytes[6] & std::byte{0x0f}) | std::byte{0x40};
  bytes[8] = (bytes[8] & std::byte{0x3f}) | std::byte{0x80};
  std::string text = to_hex(bytes);
  for (const std::size_t at : {8U, 13U, 18U, 23U}) text.insert(at, "-");
  return text;
}

// The kernel's own cannot be set: a file of ours is bound over it. Once it is there its content is replaced
// in one write of the same length, so nobody reads half of it.
Result<void> renew_boot_id() {
  const std::string content = random_uuid() + "\n";
  struct statfs status{};
  if (::statfs(boot_id_path, &status) != 0) return fail_errno(errno, "stat the boot id");
  const bool bound = status.f_type != PROC_SUPER_MAGIC;
  const std::string source = std::string(folder) + "/boot_id";
  SPACE_TRY(const Fd file, open_fd(source, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444));
  SPACE_CHECK(write_all(file.get(), as_bytes(content)));
  if (!bound && ::mount(source.c_str(), boot_id_path, nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(errno, "bind the boot id");
  return {};
}

// D-Bus keeps a copy where its file is no link to /etc/machine-id.
Result<void> renew_machine_id() {
  const std::string content = to_hex(random_bytes(16)) + "\n";
  SPACE_CHECK(write_plain("/etc/machine-id", content));
  struct stat status{};
  if (::lstat(dbus_id_path, &status) == 0 && S_ISREG(status.st_mode))
    return write_plain(dbus_id_path, content);
  return {};
}

bool has_machine_id() {
  return read_or_empty("/etc/machine-id").size() >= 32;
}

Result<void> set_host_name(std::string_view host_name) {
  if (::sethostname(host_name.data(), host_name.size()) != 0) return fail_errno(errno, "set the host name");
  SPACE_CHECK(write_plain("/etc/hostname", fmt::format("{}\n", host_name)));
  const std::string hosts = read_or_empty("/etc/hosts");
  const std::string wanted =
      hosts_with_name(hosts.empty() ? "127.0.0.1 localhost\n::1 localhost\n" : hosts, host_name);
  return wanted == hosts ? Result<void>() : write_plain("/etc/hosts", wanted);
}

// The id is noted once everything that goes with it is done: what failed is tried again by the next call.
Result<void> renew_for_disk(std::string_view sandbox_id) {
  SPACE_CHECK(make_folder(disk_folder, 0700));
  SPACE_CHECK(renew_machine_id());
  return write_plain(disk_id_path, sandbox_id);
}

Result<void> renew_for_memory(std::string_view sandbox_id) {
  SPACE_CHECK(renew_boot_id());
  return write_plain(memory_id_path, sandbox_id);
}

}  // namespace

bool is_host_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, allowed);
}

std::string hosts_with_name(std::string_view hosts, std::string_view host_name) {
  std::string result;
  while (!hosts.empty()) {
    const std::size_t end = std::min(hosts.find('\n'), hosts.size());
    const std::string_view line = hosts.substr(0, end);
    hosts.remove_prefix(std::min(end + 1, hosts.size()));
    const bool ours = line.starts_with("127.0.1.1") && line.find_first_of(" \t") == 9;
    if (!ours) result.append(line).append("\n");
  }
  return result + fmt::format("127.0.1.1 {}\n", host_name);
}

Result<IdentityNews> take_identity(std::string_view sandbox_id, std::string_view host_name) {
  if (!is_host_name(host_name)) return fail(Code::invalid_argument, "'{}' is not a host name", host_name);
  const IdentityNews news{.memory = read_or_empty(memory_id_path) != sandbox_id,
                          .disk = read_or_empty(disk_id_path) != sandbox_id || !has_machine_id()};
  Result<void> first = make_folder(folder, 0755);
  const auto note = [&first](Result<void> result) {
    if (first && !result) first = std::move(result);
  };
  note(set_host_name(host_name));
  if (news.disk) note(renew_for_disk(sandbox_id));
  if (news.memory) note(renew_for_memory(sandbox_id));
  if (!first) return std::unexpected(std::move(first).error());
  return news;
}

Result<void> set_generation(std::uint64_t generation) {
  SPACE_CHECK(make_folder(folder, 0755));
  const std::string path = std::string(folder) + "/generation";
  const std::string content = fmt::format("{}\n", generation);
  if (read_or_empty(path) == content) return {};
  SPACE_CHECK(write_plain(path + ".new", content));
  if (::rename((path + ".new").c_str(), path.c_str()) != 0)
    return fail_errno(errno, "replace the generation");
  return {};
}

Result<void> next_generation() {
  const std::string text = read_or_empty(std::string(folder) + "/generation");
  std::uint64_t generation = 0;
  std::from_chars(text.data(), text.data() + text.size(), generation);
  return set_generation(generation + 1);
}

}  // namespace space::guest
