// The door: whether a datagram is a well-formed request, and of somebody who may make it. Pure; the only
// parser of the root process.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "api/noded.h"
#include "base/result.h"
#include "priv/permit.h"

namespace space::noded {

// Who connects; told apart by uid. Each may use its own verbs and no others.
enum class Client : unsigned { sandboxd = 1, netd = 2, volumed = 4 };
const char* name_of(Client client);

// A request whose every part is within its bounds. Only the gate makes one.
struct Call {
  Verb verb;
  std::uint64_t sequence;
  std::optional<priv::SandboxPermit> sandbox;     // where the verb takes one
  std::optional<priv::SandboxPermit> source;      // the same
  std::optional<priv::TemplatePermit> template_;  // the same
  std::array<std::uint64_t, values_count> values;

  // What calls are kept in order for; empty where the verb takes neither.
  std::string key() const {
    return sandbox ? sandbox->id() : template_ ? template_->digest() : std::string();
  }
};

// Powers of root that a worker keeps: bits of the numbers in <linux/capability.h>.
using Capabilities = std::uint64_t;

// What a verb takes. One row each: door, server and verbs read the same table.
struct VerbShape {
  Verb verb;
  const char* name;
  unsigned clients;
  bool sandbox = false;
  bool source = false;
  bool may_source = false;  // it may be there
  bool digest = false;
  unsigned values = 0;            // the first ones; the rest are zero
  unsigned descriptors = 0;       // exactly
  bool at_once = false;           // answered by the process itself, without a worker
  Capabilities capabilities = 0;  // of the worker
};

// nullptr when there is no such verb.
const VerbShape* shape_of(Verb verb);
// All that any verb needs: the process gives up the rest.
Capabilities capabilities_of_all_verbs();

class Gate {
 public:
  static Result<Call> admit(std::span<const std::byte> datagram, std::size_t descriptors, Client client);
  // For what the operator's own command line asks of an instance: no client is involved.
  static priv::SandboxPermit of_operator(std::string id) { return priv::SandboxPermit(std::move(id)); }
};

// The sequence number of a datagram, admitted or not; 0 when it is too short to have one.
std::uint64_t sequence_of(std::span<const std::byte> datagram);

// Never longer than its field; cut at the end of a character.
Reply make_reply(std::uint64_t sequence, const std::array<std::uint64_t, values_count>& values);
Reply make_reply(std::uint64_t sequence, const Error& error);

}  // namespace space::noded
