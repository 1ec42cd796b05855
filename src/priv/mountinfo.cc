#include "priv/mountinfo.h"

#include <optional>

#include "base/fd.h"

namespace space::priv {
namespace {

constexpr std::size_t mountinfo_bytes_max = 8 << 20;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// The kernel writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// 36 35 98:0 /root /point rw,noatime master:1 - type source options
std::optional<Mount> parse_line(std::string_view line) {
  const auto words = split(line, ' ');
  std::size_t dash = 6;
  while (dash < words.size() && words[dash] != "-") ++dash;
  if (dash + 3 >= words.size()) return std::nullopt;
  return Mount{.point = unescape(words[4]),
               .type = std::string(words[dash + 1]),
               .source = unescape(words[dash + 2]),
               .options = std::string(words[dash + 3]),
               .mount_options = std::string(words[5])};
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  for (const auto line : split(text, '\n'))
    if (auto mount = parse_line(line)) mounts.push_back(*std::move(mount));
  return mounts;
}

Result<std::vector<Mount>> mounts_of_this_process() {
  SPACE_TRY(const std::string text, read_file("/proc/self/mountinfo", mountinfo_bytes_max));
  return parse_mountinfo(text);
}

const Mount* mounted_at(const std::vector<Mount>& mounts, std::string_view point) {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts)
    if (mount.point == point) found = &mount;
  return found;
}

bool has_option(std::string_view options, std::string_view name) {
  for (const auto option : split(options, ','))
    if (option == name) return true;
  return false;
}

}  // namespace space::priv
