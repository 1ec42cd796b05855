#include "priv/jail_talk.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/bytes.h"

namespace space::priv {
namespace {

constexpr std::size_t text_bytes_max = 1024;
constexpr std::string_view missing_mark = " missing ";

// First character of a datagram.
enum Kind : char { leave = 'l', map_me = 'm', mapped = 'u', worn_is = 'w', failed = 'e' };

Result<void> say(int socket, Kind kind, std::string_view text = {}) {
  std::string datagram(1, kind);
  datagram += text.substr(0, text_bytes_max);
  if (::send(socket, datagram.data(), datagram.size(), MSG_NOSIGNAL) < 0) return fail_errno(errno, "tell");
  return {};
}

// Empty: the other end is gone.
Result<std::string> hear(int socket) {
  std::array<char, text_bytes_max + 1> buffer;
  ssize_t got = 0;
  do got = ::recv(socket, buffer.data(), buffer.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got < 0) return fail_errno(errno, "hear");
  return std::string(buffer.data(), static_cast<std::size_t>(got));
}

Result<void> await(int parent, Kind kind) {
  SPACE_TRY(const std::string heard, hear(parent));
  if (heard.empty()) return fail(Code::internal, "the supervisor ended");
  if (heard.front() != kind) return fail(Code::internal, "{}", heard.substr(1));
  return {};
}

Result<void> map_user(pid_t child, uid_t uid) {
  for (const char* map : {"uid_map", "gid_map"}) {
    SPACE_TRY(const Fd file, open_fd(fmt::format("/proc/{}/{}", child, map), O_WRONLY));
    SPACE_CHECK(write_all(file.get(), as_bytes(fmt::format("{0} {0} 1\n", uid))));
  }
  return {};
}

}  // namespace

Result<void> await_leave(int parent) {
  return await(parent, leave);
}

Result<void> ask_for_user_mapping(int parent) {
  SPACE_CHECK(say(parent, map_me));
  return await(parent, mapped);
}

Result<void> tell_worn(int parent, const Worn& worn) {
  return say(parent, worn_is, to_text(worn));
}

void tell_failure(int parent, const Error& error) {
  (void)say(parent, failed,
            fmt::format("{}{}", static_cast<char>('A' + static_cast<int>(error.code)), error.message));
}

Result<Worn> oversee_jail(int socket, pid_t child, uid_t uid) {
  SPACE_CHECK(say(socket, leave));
  Worn worn;
  while (true) {
    SPACE_TRY(const std::string heard, hear(socket));
    if (heard.empty()) return worn;
    const std::string text = heard.substr(1);
    if (heard.front() == failed && !text.empty())
      return fail(static_cast<Code>(text.front() - 'A'), "{}", text.substr(1));
    if (heard.front() == worn_is) {
      SPACE_TRY(worn, parse_worn(text));
    }
    if (heard.front() != map_me) continue;
    const auto done = map_user(child, uid);
    SPACE_CHECK(done ? say(socket, mapped) : say(socket, failed, "map the uid: " + done.error().message));
  }
}

std::string to_text(const Worn& worn) {
  std::string text = fmt::format("landlock {}", worn.landlock_abi);
  for (const std::string& layer : worn.missing) text += std::string(missing_mark) + layer;
  return text;
}

Result<Worn> parse_worn(std::string_view text) {
  constexpr std::string_view start = "landlock ";
  Worn worn;
  if (!text.starts_with(start)) return fail(Code::internal, "malformed record of the jail");
  text.remove_prefix(start.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), worn.landlock_abi);
  if (error != std::errc()) return fail(Code::internal, "malformed record of the jail");
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (text.starts_with(missing_mark)) {
    text.remove_prefix(missing_mark.size());
    const auto next = std::min(text.find(missing_mark), text.size());
    worn.missing.emplace_back(text.substr(0, next));
    text.remove_prefix(next);
  }
  if (!text.empty()) return fail(Code::internal, "malformed record of the jail");
  return worn;
}

}  // namespace space::priv
