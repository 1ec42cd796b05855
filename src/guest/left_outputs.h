// LeftOutputs: outputs of ended programs that something they left behind still holds. They are read and
// dropped: a full pipe would stop whoever writes, a closed one would end them.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <list>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "net/task.h"

namespace space::guest {

class LeftOutputs {
 public:
  using Descriptor = boost::asio::posix::stream_descriptor;

  explicit LeftOutputs(const Executor& executor) : executor_(executor) {}
  void take(Descriptor source);
  void take(Fd source);
  std::vector<int> descriptors();  // still open here

 private:
  Task<void> drop(std::list<Descriptor>::iterator source);

  Executor executor_;
  std::list<Descriptor> sources_;
};

}  // namespace space::guest
