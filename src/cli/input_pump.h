// InputPump: carries what is typed (or piped in) to a running program, through connections that come and go.
//
// Nothing is lost or sent twice in silence: what certainly did not leave is sent once the connection is back;
// what may or may not have arrived is not repeated, and the person is told.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "cli/api_client.h"
#include "cli/process_events.h"
#include "cli/terminal.h"

namespace space::cli {

class InputPump : public std::enable_shared_from_this<InputPump> {
 public:
  // Takes standard input. `on_detach`: ^P ^Q were typed; asked for only on a terminal.
  InputPump(const Executor& executor, const ApiClient& api, std::shared_ptr<const Target> target,
            Selector selector, bool terminal, std::function<void()> on_detach);

  void start();
  void stop();  // what is under way ends soon
  void set_connected(bool connected);

 private:
  enum class Delivery : unsigned char { done, not_sent, doubtful, refused };

  Task<void> read_stream();
  Task<void> read_file(Fd file);
  Task<void> send_all();
  void take(std::string_view typed);
  void leave();
  Task<bool> send_piece(std::string piece);
  Task<Delivery> deliver(std::string piece);
  Task<void> end_input();

  Executor executor_;
  const ApiClient& api_;
  std::shared_ptr<const Target> target_;
  Selector selector_;
  bool terminal_;  // the program's
  std::function<void()> on_detach_;
  DetachKeys keys_;
  std::string pending_;
  bool ended_ = false;
  bool connected_ = true;
  bool stopped_ = false;
  Event changed_;
  boost::asio::posix::stream_descriptor input_;
};

}  // namespace space::cli
