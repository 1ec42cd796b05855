#include "guest/users.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/fd.h"

namespace space::guest {

namespace {

constexpr std::size_t file_limit_bytes = 1024 * 1024;

std::string_view next_piece(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view piece = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return piece;
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool lists(std::string_view members, std::string_view name) {
  while (!members.empty())
    if (next_piece(members, ',') == name) return true;
  return false;
}

std::vector<gid_t> groups_of(std::string_view group, std::string_view name, gid_t primary) {
  std::vector<gid_t> groups{primary};
  while (!group.empty()) {
    std::string_view line = next_piece(group, '\n');
    next_piece(line, ':');
    next_piece(line, ':');
    const auto gid = number(next_piece(line, ':'));
    if (gid && lists(line, name) && std::ranges::find(groups, *gid) == groups.end()) groups.push_back(*gid);
  }
  return groups;
}

// The first and third field of each line: name and id.
std::map<std::uint32_t, std::string> names_by_id(std::string_view text) {
  std::map<std::uint32_t, std::string> names;
  while (!text.empty()) {
    std::string_view line = next_piece(text, '\n');
    const std::string_view name = next_piece(line, ':');
    next_piece(line, ':');  // password
    const auto id = number(next_piece(line, ':'));
    if (id && !name.empty()) names.try_emplace(*id, name);
  }
  return names;
}

std::string name_or_number(const std::map<std::uint32_t, std::string>& names, std::uint32_t id) {
  const auto found = names.find(id);
  return found == names.end() ? std::to_string(id) : found->second;
}

}  // namespace

std::string AccountNames::user(uid_t uid) const {
  return name_or_number(users, uid);
}
std::string AccountNames::group(gid_t gid) const {
  return name_or_number(groups, gid);
}

AccountNames account_names(std::string_view passwd, std::string_view group) {
  return {.users = names_by_id(passwd), .groups = names_by_id(group)};
}

std::optional<User> find_user(std::string_view passwd, std::string_view group, std::string_view name) {
  if (name.empty()) return std::nullopt;
  while (!passwd.empty()) {
    std::string_view line = next_piece(passwd, '\n');
    if (next_piece(line, ':') != name) continue;
    next_piece(line, ':');  // password
    const auto uid = number(next_piece(line, ':'));
    const auto gid = number(next_piece(line, ':'));
    next_piece(line, ':');  // comment
    const std::string_view home = next_piece(line, ':');
    if (!uid || !gid) continue;
    return User{.name = std::string(name),
                .uid = *uid,
                .gid = *gid,
                .home = home.empty() ? "/" : std::string(home),
                .groups = groups_of(group, name, *gid)};
  }
  return std::nullopt;
}

const std::string& UserDatabase::read(CachedFile& cached, std::string_view name) {
  const std::string path = fmt::format("{}/{}", etc_, name);
  struct stat now{};
  if (::stat(path.c_str(), &now) != 0) {
    if (!cached.text.empty()) names_.reset();
    cached = CachedFile();
    return cached.text;
  }
  const std::int64_t modified_ns = now.st_mtim.tv_sec * 1'000'000'000 + now.st_mtim.tv_nsec;
  if (cached.modified_ns != modified_ns || cached.inode != now.st_ino || cached.size != now.st_size) {
    auto text = read_file(path, file_limit_bytes);
    cached = {.modified_ns = modified_ns,
              .inode = now.st_ino,
              .size = now.st_size,
              .text = text ? *std::move(text) : std::string()};
    names_.reset();
  }
  return cached.text;
}

Result<User> UserDatabase::find(std::string_view name) {
  auto user = find_user(read(passwd_, "passwd"), read(group_, "group"), name);
  if (!user) return fail(Code::unauthenticated, "invalid username: '{}'", name);
  return *std::move(user);
}

std::shared_ptr<const AccountNames> UserDatabase::names() {
  const std::string& passwd = read(passwd_, "passwd");
  const std::string& group = read(group_, "group");
  if (!names_) names_ = std::make_shared<const AccountNames>(account_names(passwd, group));
  return names_;
}

}  // namespace space::guest
