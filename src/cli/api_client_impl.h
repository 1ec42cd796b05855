// Template bodies of api_client.h.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <cstdlib>
#include <exception>

namespace space::cli {

template <class T>
T run_loop(Task<T> task) {
  boost::asio::io_context loop(1);
  std::optional<T> result;
  boost::asio::co_spawn(loop, std::move(task), [&](const std::exception_ptr& failure, T value) {
    if (failure) std::abort();  // our functions do not throw
    result = std::move(value);
    loop.stop();
  });
  loop.run();
  return *std::move(result);
}

}  // namespace space::cli
