#include "cli/doctor/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace space::cli::doctor {

namespace {

// Blanks in mount points are written \040.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digits = text.substr(i + 1, 3);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
    if (text[i] == '\\' && digits.size() == 3 && error == std::errc() && end == digits.data() + 3) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_in(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

bool Mount::has(std::string_view option) const {
  return std::ranges::find(options, option) != options.end();
}
bool Mount::read_only() const {
  return has("ro");
}

std::vector<Mount> mounts(const Machine& machine) {
  std::vector<Mount> found;
  const std::string text = machine.text("/proc/self/mounts").value_or("");
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 4) continue;
    Mount mount{unescape(words[0]), unescape(words[1]), std::string(words[2]), {}};
    for (const auto option : words_of(words[3], ",")) mount.options.emplace_back(option);
    found.push_back(std::move(mount));
  }
  return found;
}

const Mount* mount_of(const std::vector<Mount>& mounts, const std::string& path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts)
    if (lies_in(path, mount.point) && (best == nullptr || mount.point.size() >= best->point.size()))
      best = &mount;
  return best;
}

const Mount* mounted_at(const std::vector<Mount>& mounts, const std::string& point) {
  const Mount* top = nullptr;
  for (const Mount& mount : mounts)
    if (mount.point == point) top = &mount;
  return top;
}

std::vector<Account> accounts(const Machine& machine) {
  std::vector<Account> found;
  const std::string text = machine.text("/etc/passwd").value_or("");
  for (const auto line : lines_of(text)) {
    const auto fields = words_of(line, ":");  // an empty password field is 'x' or '*' on every system we know
    if (fields.size() < 4) continue;
    const auto uid = number(fields[2]);
    const auto gid = number(fields[3]);
    if (uid && gid) found.push_back({std::string(fields[0]), *uid, *gid});
  }
  return found;
}

std::optional<Account> account(const Machine& machine, std::string_view name) {
  const auto all = accounts(machine);
  const auto found = std::ranges::find(all, name, &Account::name);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::vector<Process> processes(const Machine& machine) {
  std::vector<Process> found;
  for (const std::string& name : machine.names("/proc")) {
    const auto pid = number(name);
    if (!pid) continue;
    const std::string comm = machine.text("/proc/" + name + "/comm").value_or("");
    const std::string line = machine.text("/proc/" + name + "/cmdline").value_or("");
    if (line.empty()) continue;  // a kernel thread, a zombie, or gone
    Process process{static_cast<int>(*pid), comm.substr(0, comm.find('\n')), {}};
    for (const auto word : words_of(line, std::string_view("\0", 1))) process.words.emplace_back(word);
    found.push_back(std::move(process));
  }
  return found;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  return words_of(text, "\n");
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    const auto start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) return words;
    const auto end = std::min(text.find_first_of(separators, start), text.size());
    words.push_back(text.substr(start, end - start));
    text.remove_prefix(end);
  }
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key) {
  for (const auto line : lines_of(text)) {
    if (!line.starts_with(key)) continue;
    const auto words = words_of(line.substr(key.size()), ": \t");
    return words.empty() ? std::nullopt : number(words.front());
  }
  return std::nullopt;
}

std::optional<std::uint64_t> setting(const Machine& machine, const std::string& path) {
  const auto text = machine.text(path);
  return text ? number(*text) : std::nullopt;
}

std::string nearest(const Machine& machine, std::string path) {
  while (path.size() > 1 && !machine.file(path)) path.resize(std::max<std::size_t>(1, path.rfind('/')));
  return path;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= gib) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(gib));
  return fmt::format("{} MiB", bytes / mib);
}

}  // namespace space::cli::doctor
