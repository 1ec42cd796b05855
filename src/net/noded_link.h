// One connection to space-noded: sends requests, matches answers. Dies with the connection and is not
// revived.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "api/noded.h"
#include "base/fd.h"
#include "net/task.h"

namespace space {

class NodedLink : public std::enable_shared_from_this<NodedLink> {
 public:
  struct Received {
    noded::Reply reply{};
    std::vector<Fd> fds;
  };

  // nullptr with errno set when nobody listens on `path`.
  static std::shared_ptr<NodedLink> connect(const Executor& executor, const std::string& path);

  // nullopt: the connection broke before the answer came. deadline: none came in time; a late one is dropped.
  Task<Result<std::optional<Received>>> exchange(noded::Request request, std::vector<int> fds,
                                                 Deadline deadline);
  bool broken() const { return broken_; }
  void close();

 private:
  struct Pending {
    explicit Pending(const Executor& executor) : answered(executor) {}
    Event answered;
    std::optional<Received> received;
  };

  NodedLink(const Executor& executor, Fd fd);
  Task<void> read_answers();
  bool read_ready();  // false: broken
  void deliver(Received received);
  Task<bool> send(noded::Request request, std::vector<int> fds);

  boost::asio::posix::stream_descriptor socket_;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;  // by sequence
  bool broken_ = false;
};

}  // namespace space
