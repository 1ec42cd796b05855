// ApiClient: the CLI's way to space-control. One request, one connection; blocking callers use `run_loop`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "base/json.h"
#include "cli/options.h"
#include "cli/settings.h"
#include "net/http.h"

namespace space::cli {

struct Answer {
  int status = 0;
  Json body;               // null when the answer had none
  std::string next_token;  // X-Next-Token: more pages follow
};

// A running sandbox as the data plane needs it.
struct Target {
  std::string sandbox_id;
  SecretText access_token;
  SecretText traffic_token;  // for the guest's own ports; empty: they are public
  std::string domain;        // its ports have names below it; empty: headers name them
};

bool shows_paused(const Answer& answer);  // of one sandbox

class ApiClient {
 public:
  explicit ApiClient(Settings settings) : settings_(std::move(settings)) {}

  // `body` is sent as JSON. A status of 400 and above is an Error whose message is the server's own.
  Task<Result<Answer>> call(std::string method, std::string target, std::optional<JsonObject> body,
                            Millis timeout = Millis(120'000)) const;
  // Looks the sandbox up (and extends its life by nothing), brings it back if it rests: what a data-plane
  // request must carry. `wanted` is its id or a beginning of it that no other has.
  Task<Result<Target>> connect_sandbox(std::string wanted) const;
  // An exchange with the guest daemon of `target`: head written, body to be written by the caller.
  Task<Result<std::unique_ptr<http::ClientConnection>>> open_daemon(const Target& target,
                                                                    http::RequestHead head) const;
  // One unary Connect call to the guest daemon; the error carries the daemon's message. `user`: who makes it,
  // "" is the template's. `sent`, if not null, becomes true when the request may have left.
  Task<Result<JsonObject>> daemon_call(const Target& target, std::string procedure, JsonObject request,
                                       bool* sent = nullptr, std::string user = "") const;

  // A raw byte stream to `port` of the guest's loopback (the API's tunnel route). Code::unavailable: nothing
  // listens there.
  Task<Result<StreamPtr>> open_port(const Target& target, std::uint16_t port) const;

  const Settings& settings() const { return settings_; }

 private:
  Task<Result<StreamPtr>> dial(Deadline deadline) const;
  Settings settings_;
};

// With the settings of flags, environment and file.
Result<ApiClient> make_client(const CommonOptions& common);

// Runs one task to its end on a loop of its own.
template <class T>
T run_loop(Task<T> task);

}  // namespace space::cli

#include "cli/api_client_impl.h"
