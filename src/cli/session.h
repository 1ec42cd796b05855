// Session: this terminal joined to a program in a sandbox, from its first byte to its end. Survives lost
// connections where the program has a terminal: it attaches again, with growing pauses, and says so.
#pragma once

#include <boost/asio/signal_set.hpp>
#include <memory>
#include <string>

#include "cli/connect_stream.h"
#include "cli/input_pump.h"

namespace space::cli {

struct SessionOptions {
  bool terminal = false;       // the program has a PTY: raw mode here, sizes are followed, ^P ^Q leave it
  bool forward_stdin = false;  // standard input goes to it
  bool reattach = false;       // after a lost connection
};

// Fields of a request whose stream a Session follows.
http::Fields session_fields();
std::string basic_authorization(const std::string& user);

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `selector` may be empty for a program that is only starting: its pid comes with the first event.
  Session(const Executor& executor, const ApiClient& api, Target target, Selector selector,
          SessionOptions options);

  // Process/Connect, for `run`.
  Task<Result<std::unique_ptr<ConnectStream>>> attach();
  // The exit code a shell would report; 0 after ^P ^Q.
  Task<Result<int>> run(std::unique_ptr<ConnectStream> stream);

 private:
  Task<Result<int>> follow();
  Result<void> print(const ProcessEvent& event);
  void started(std::uint32_t pid);
  Task<Result<void>> attach_again(Error why);
  Task<Result<void>> try_attach();
  Task<void> follow_size();
  Task<void> send_size(bool redraw);
  void detach();
  void say_detached() const;

  Executor executor_;
  const ApiClient& api_;
  std::shared_ptr<const Target> target_;
  Selector selector_;
  SessionOptions options_;
  std::unique_ptr<ConnectStream> stream_;
  std::shared_ptr<InputPump> pump_;
  boost::asio::signal_set resized_;
  Event woken_;
  bool detached_ = false;
};

}  // namespace space::cli
