#include "guest/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/ids.h"

namespace space::guest {

namespace {

constexpr std::size_t file_limit_bytes = 256 * 1024;
constexpr const char* folder = "/run/space";

// In place and not durable: a crash loses nothing the next identity call does not write again.
Result<void> write_plain(const std::string& path, std::string_view content) {
  SPACE_TRY(const Fd fd, open_fd(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return write_all(fd.get(), as_bytes(content));
}

std::string read_or_empty(const std::string& path) {
  return read_file(path, file_limit_bytes).value_or("");
}

Result<void> renew(std::string_view sandbox_id) {
  SPACE_CHECK(write_plain("/etc/machine-id", to_hex(random_bytes(16)) + "\n"));
  const std::string generation_path = std::string(folder) + "/generation";
  const auto generation = std::strtoull(read_or_empty(generation_path).c_str(), nullptr, 10) + 1;
  SPACE_CHECK(write_plain(generation_path, fmt::format("{}\n", generation)));
  return write_plain(std::string(folder) + "/sandbox-id", sandbox_id);
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

Result<void> take_identity(std::string_view sandbox_id, std::string_view host_name) {
  if (!is_host_name(host_name)) return fail(Code::invalid_argument, "'{}' is not a host name", host_name);
  if (::sethostname(host_name.data(), host_name.size()) != 0) return fail_errno(errno, "set the host name");
  SPACE_CHECK(write_plain("/etc/hostname", fmt::format("{}\n", host_name)));
  const std::string hosts = read_or_empty("/etc/hosts");
  const std::string wanted =
      hosts_with_name(hosts.empty() ? "127.0.0.1 localhost\n::1 localhost\n" : hosts, host_name);
  if (wanted != hosts) SPACE_CHECK(write_plain("/etc/hosts", wanted));
  if (::mkdir(folder, 0755) != 0 && errno != EEXIST) return fail_errno(errno, "make /run/space");
  if (read_or_empty(std::string(folder) + "/sandbox-id") == sandbox_id) return {};
  return renew(sandbox_id);
}

}  // namespace space::guest
