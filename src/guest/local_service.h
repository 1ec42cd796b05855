// LocalService: what programs inside the sandbox may ask of the daemon through /run/space/guest.sock
// (api/guest-local.md): leases and a wake-up time. Every program may, so the most it can do is bounded.
#pragma once

#include <functional>

#include "base/json.h"
#include "guest/guest_state.h"
#include "net/http.h"

namespace space::guest {

class LocalService {
 public:
  static constexpr const char* socket_path = "/run/space/guest.sock";
  static constexpr std::size_t connections_max = 16;

  // `activity` answers GET /activity. A client silent for `patience` is dropped: it must not keep one of the
  // few connections. The service outlives the loop's coroutines.
  LocalService(GuestState& state, std::function<Result<JsonObject>()> activity,
               Millis patience = Millis(5000))
      : state_(state), activity_(std::move(activity)), patience_(patience) {}

  // One connection, until the client closes it or says nothing for a while.
  Task<void> serve(StreamPtr stream);

 private:
  struct Answer {
    int status = 200;
    std::string body;
  };
  Result<Answer> answer(const http::RequestHead& head, std::string_view body);
  Result<Answer> leases(const http::RequestHead& head, std::string_view name, std::string_view body);
  Result<Answer> wake(const http::RequestHead& head, std::string_view body);

  GuestState& state_;
  std::function<Result<JsonObject>()> activity_;
  Millis patience_;
};

}  // namespace space::guest
