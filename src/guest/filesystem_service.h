// filesystem.Filesystem of the daemon's protocol (api/envd.md): from HTTP exchanges to file_tree and
// watchers. The daemon acts as root; what it makes belongs to the request's user.
#pragma once

#include <map>

#include "guest/exchange.h"
#include "guest/filesystem_messages.h"
#include "guest/guest_state.h"
#include "guest/watcher.h"

namespace space::guest {

class FilesystemService {
 public:
  explicit FilesystemService(GuestState& state) : state_(state) {}

  // `method` is what follows "/filesystem.Filesystem/". Unknown: unimplemented.
  Task<void> handle(Exchange exchange, std::string method);

 private:
  // One of CreateWatcher, kept until RemoveWatcher.
  struct Polled {
    std::shared_ptr<Watcher> watcher;
    Monotonic asked;  // for its events, last
  };

  using Answer = RpcResult<std::string>;  // JSON

  Task<Answer> unary(Exchange exchange, std::string method);
  Task<Answer> stat(User user, JsonObject message);
  Task<Answer> make_dir(User user, JsonObject message);
  Task<Answer> move(User user, JsonObject message);
  Task<Answer> list(User user, JsonObject message);
  Task<Answer> remove(User user, JsonObject message);
  Task<Answer> entry_at(std::string path);

  Task<void> watch_dir(Exchange exchange);
  Task<RpcResult<std::shared_ptr<Watcher>>> open_stream(Exchange exchange);
  Task<RpcResult<std::shared_ptr<Watcher>>> open_watcher(User user, JsonObject message);
  Task<Answer> create_watcher(User user, JsonObject message);
  Answer watcher_events(const JsonObject& message);
  Answer remove_watcher(const JsonObject& message);
  bool make_room();

  RpcResult<User> user_of(const Exchange& exchange);

  GuestState& state_;
  std::map<std::string, Polled> polled_;
  std::uint64_t watchers_made_ = 0;
};

}  // namespace space::guest
