// The honest half of a hostile daemon: just enough of HTTP/2 to be taken for a guest that is well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/jail/hostile/wire.h"

namespace space::hostile {

// What the host asked for, once it was asked.
struct Asked {
  bool tunnel = false;
  std::uint32_t stream = 0;
  std::string body;
};

class Session {
 public:
  // `rest` is what came after the SYNC.
  Session(Wire& wire, std::string rest) : wire_(wire), bytes_(std::move(rest)) {}
  // The next question. nullopt: the host hung up, or speaks no HTTP/2 any more; take_rest() has what it said.
  std::optional<Asked> next();
  void answer(std::uint32_t stream, std::string_view body);
  std::string take_rest() { return std::move(bytes_); }

 private:
  struct Frame {
    unsigned type = 0, flags = 0;
    std::uint32_t stream = 0;
    std::string payload;
  };
  bool fill(std::size_t size);
  std::optional<Frame> next_frame();
  bool say(std::string_view bytes);

  Wire& wire_;
  std::string bytes_;
  bool greeted_ = false;
};

}  // namespace space::hostile
