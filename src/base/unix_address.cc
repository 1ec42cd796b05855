#include "base/unix_address.h"

namespace space {

Result<UnixAddress> UnixAddress::of(std::string_view path) {
  UnixAddress result;
  constexpr std::size_t longest = sizeof result.address_.sun_path - 1;
  if (path.empty() || path.size() > longest)
    return fail(Code::invalid_argument, "socket path of {} bytes, 1 to {} allowed", path.size(), longest);
  result.address_.sun_family = AF_UNIX;
  path.copy(result.address_.sun_path, path.size());
  return result;
}

}  // namespace space
