// Ports of a sandbox on this machine's loopback.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/api_client.h"

namespace space::cli {

struct Forward {
  std::uint16_t local = 0;  // 0: any free one
  std::uint16_t remote = 0;
};

// "8000", "9000:8000" or "0:8000". Pure.
Result<Forward> parse_forward(std::string_view text);

// Listens on 127.0.0.1 and carries each connection to the sandbox, until destroyed.
class PortForward {
 public:
  static Result<std::unique_ptr<PortForward>> start(const Executor& executor, const ApiClient& api,
                                                    std::shared_ptr<const Target> target, Forward forward);
  ~PortForward() { listener_->close(); }
  PortForward(const PortForward&) = delete;
  PortForward& operator=(const PortForward&) = delete;
  std::uint16_t local_port() const { return listener_->port(); }

 private:
  explicit PortForward(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}
  std::shared_ptr<Listener> listener_;
};

}  // namespace space::cli
