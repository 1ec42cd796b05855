// /files and /files/compose (api/envd.md): whole files in and out. The daemon acts as root and gives what it
// creates to the chosen user; blocking file work runs beside the loop.
#pragma once

#include "guest/exchange.h"
#include "guest/guest_state.h"

namespace space::guest {

class FileService {
 public:
  explicit FileService(GuestState& state) : state_(state) {}
  Task<void> read(Exchange exchange);  // GET and HEAD
  Task<void> write(Exchange exchange);
  Task<void> compose(Exchange exchange);

 private:
  Result<User> user_called(std::string_view name);  // "": the default
  Result<User> user_of(const Exchange& exchange);
  GuestState& state_;
};

// Why a request to /files must be refused with 401; nullopt: it may be served. It brings the access token, or
// is signed with it (core/file_signature.h). "" as `token`: everybody may. Pure.
std::optional<std::string> file_access_refusal(const http::RequestHead& head, std::string_view token,
                                               std::int64_t now_seconds);

}  // namespace space::guest
