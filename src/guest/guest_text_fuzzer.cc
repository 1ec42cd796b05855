// The daemon's smaller parsers of what clients and the guest's own files hold.
#include <cstddef>
#include <cstdint>

#include "guest/environment.h"
#include "guest/identity.h"
#include "guest/multipart.h"
#include "guest/process_messages.h"
#include "guest/users.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space::guest;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto message = space::parse_json_object(text, "fuzz")) {
    if (const auto start = parse_start(*message)) (void)process_info(1, start->process, start->tag);
    (void)parse_selector(*message);
    (void)parse_input(*message);
    (void)parse_signal(*message);
    (void)parse_stream_input(*message);
  }
  const std::size_t half = size / 2;
  const auto user = find_user(text.substr(0, half), text.substr(half), "user");
  (void)resolve_path(text, user.value_or(User()), "");
  (void)executable_candidates("x", text);
  (void)hosts_with_name(text, "name");
  (void)multipart_boundary(text);
  return 0;
}
