#include "guest/environment.h"

#include "base/path_text.h"

namespace space::guest {

namespace {

void overlay(Environment& base, const Environment& top) {
  for (const auto& [name, value] : top) {
    const bool valid = !name.empty() && name.find_first_of(std::string_view("=\0", 2)) == std::string::npos &&
                       value.find('\0') == std::string::npos;
    if (valid) base.insert_or_assign(name, value);
  }
}

std::string normalized(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view piece = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (piece.empty() || piece == ".") continue;
    if (piece == "..") {
      result.resize(result.empty() ? 0 : result.rfind('/'));
      continue;
    }
    result += '/';
    result += piece;
  }
  return result.empty() ? "/" : result;
}

}  // namespace

Environment build_environment(std::string_view path, const User& user, const Environment& sandbox,
                              const Environment& request) {
  Environment result{{"PATH", std::string(path)},
                     {"HOME", user.home},
                     {"USER", user.name},
                     {"LOGNAME", user.name},
                     {"E2B_SANDBOX", "true"}};
  overlay(result, sandbox);
  overlay(result, request);
  return result;
}

std::vector<std::string> to_assignments(const Environment& environment) {
  std::vector<std::string> result;
  result.reserve(environment.size());
  for (const auto& [name, value] : environment) result.push_back(name + "=" + value);
  return result;
}

Result<std::string> resolve_path(std::string_view text, const User& user, std::string_view default_workdir) {
  const std::string bytes = path_of_text(text);
  std::string_view path = bytes;
  if (path.find('\0') != std::string_view::npos)
    return fail(Code::invalid_argument, "a path must not hold NUL");
  if (path.empty())
    return normalized(default_workdir.empty() ? std::string_view(user.home) : default_workdir);
  if (path.front() == '/') return normalized(path);
  if (path.front() == '~') {
    if (path.size() > 1 && path[1] != '/')
      return fail(Code::invalid_argument, "cannot expand the home folder of another user in '{}'",
                  shown_path(bytes));
    path.remove_prefix(1);
  }
  return normalized(fmt::format("{}/{}", user.home, path));
}

std::vector<std::string> executable_candidates(std::string_view command, std::string_view path) {
  if (command.find('/') != std::string_view::npos) return {std::string(command)};
  std::vector<std::string> result;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    if (end > 0) result.push_back(fmt::format("{}/{}", path.substr(0, end), command));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return result;
}

}  // namespace space::guest
