// FakeNetd: space-netd for tests. Serves api/netd-rpc.md, and decides nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "net/h2_session.h"

namespace space {

class FakeNetd {
 public:
  FakeNetd(Executor executor, std::string socket_path);
  ~FakeNetd();

  // As killed, and as started again: it remembers what it wrote to its disk.
  void stop();
  void start();

  struct Gate {
    std::int64_t generation = 0;
    std::string mode;  // of the policy
    std::string pins_of;
    bool attached = false;
  };
  std::map<std::string, Gate> gates;
  std::vector<std::string> calls;  // "attach", ...
  std::int64_t cut = 0;            // what a policy answers
  std::function<std::optional<Error>(const std::string& call)> refuse = [](const std::string&) {
    return std::nullopt;
  };
  // Whether the slot of a sandbox is there.
  std::function<bool(const std::string& id)> has_slot = [](const std::string&) { return true; };

  std::size_t attached() const;

 private:
  struct Listening;
  static Task<void> listen(FakeNetd& self, std::shared_ptr<Listening> listening);
  static Task<void> drive(std::shared_ptr<H2Session> session);
  CallResponse answer(const CallRequest& request);
  Result<JsonObject> carry_out(const std::string& call, const JsonObject& body);

  Executor executor_;
  std::string socket_path_;
  std::shared_ptr<Listening> listening_;
};

}  // namespace space
