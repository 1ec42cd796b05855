// Paths as clients write them. Whatever the text: the path is absolute, without "." and "..", and shown as
// text that leads back to it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json_text.h"
#include "base/path_text.h"
#include "guest/environment.h"

namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = space::utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_normal(std::string_view path) {
  if (path == "/") return true;
  while (!path.empty()) {
    if (path.front() != '/') return false;
    path.remove_prefix(1);
    const std::string_view piece = path.substr(0, path.find('/'));
    if (piece.empty() || piece == "." || piece == ".." || piece.find('\0') != std::string_view::npos)
      return false;
    path.remove_prefix(piece.size());
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space;
  using namespace space::guest;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string shown = text_of_path(text);
  if (!is_utf8(shown) || path_of_text(shown) != text) std::abort();
  const User user{.name = "user", .home = "/home/user"};
  for (const std::string_view workdir : {std::string_view(), std::string_view("/mnt/../srv"), text}) {
    const auto path = resolve_path(text, user, workdir);
    if (!path) continue;
    if (!is_normal(*path)) std::abort();
    const auto again = resolve_path(text_of_path(*path), user, "");
    if (!again || *again != *path) std::abort();
    if (!is_utf8(shown_path(*path))) std::abort();
  }
  return 0;
}
