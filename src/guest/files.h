// GET and POST /files (api/envd.md): whole files in and out. The daemon acts as root and gives what it
// creates to the chosen user; blocking file work runs beside the loop.
#pragma once

#include "guest/exchange.h"
#include "guest/guest_state.h"

namespace space::guest {

class FileService {
 public:
  explicit FileService(GuestState& state) : state_(state) {}
  Task<void> read(Exchange exchange);
  Task<void> write(Exchange exchange);

 private:
  Result<User> user_of(const Exchange& exchange);
  GuestState& state_;
};

}  // namespace space::guest
