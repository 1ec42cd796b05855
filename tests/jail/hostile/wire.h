// The guest's end of the private channel, in the hands of an attacker: plain reads and writes with a clock.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace space::hostile {

using Until = std::chrono::steady_clock::time_point;

class Wire {
 public:
  explicit Wire(Fd port) : port_(std::move(port)) {}
  // What came within `limit_ms`; empty when nothing did.
  std::string read(int limit_ms);
  // False when `until` passed or the host hung up before all of it was taken. Reads and drops what the host
  // says meanwhile where `reads`.
  bool write(std::string_view bytes, Until until, bool reads);
  bool host_is_there() const;
  unsigned long long written() const { return written_; }

 private:
  Fd port_;
  unsigned long long written_ = 0;
};

}  // namespace space::hostile
