// The door: whether a datagram is a well-formed request. Pure; the only parser of the root process.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "api/noded.h"
#include "base/result.h"

namespace space::noded {

// A request whose every part is within its bounds. Only `admit` makes one.
struct Call {
  Verb verb;
  std::uint64_t sequence;
  std::string sandbox;  // empty where the verb takes none
  std::string digest;
  std::array<std::uint64_t, values_count> values;
};

// What a verb takes. One row each: door, server and verbs read the same table.
struct VerbShape {
  Verb verb;
  const char* name;
  bool sandbox = false;
  bool digest = false;
  unsigned values = 0;       // the first ones; the rest are zero
  unsigned descriptors = 0;  // exactly
  bool at_once = false;      // answered by the process itself, without a worker
};

// nullptr when there is no such verb.
const VerbShape* shape_of(Verb verb);

Result<Call> admit(std::span<const std::byte> datagram, std::size_t descriptors);
// The sequence number of a datagram, admitted or not; 0 when it is too short to have one.
std::uint64_t sequence_of(std::span<const std::byte> datagram);

// Never longer than its field; cut at the end of a character.
Reply make_reply(std::uint64_t sequence, const std::array<std::uint64_t, values_count>& values);
Reply make_reply(std::uint64_t sequence, const Error& error);

}  // namespace space::noded
