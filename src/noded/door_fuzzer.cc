// The first byte is the number of descriptors, the rest the datagram.
#include <cstdlib>

#include "base/bytes.h"
#include "base/ids.h"
#include "noded/door.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space;
  using namespace space::noded;
  if (size == 0) return 0;
  const auto datagram = std::as_bytes(std::span(data + 1, size - 1));
  const auto call = admit(datagram, data[0]);
  if (!call) {
    const Reply reply = make_reply(sequence_of(datagram), call.error());
    if (reply.status == 0 || reply.message[sizeof reply.message - 1] != '\0') std::abort();
    return 0;
  }
  const VerbShape* shape = shape_of(call->verb);
  if (shape == nullptr || shape->descriptors != data[0]) std::abort();
  if (shape->sandbox ? !is_sandbox_id(call->sandbox) : !call->sandbox.empty()) std::abort();
  if (shape->digest ? !is_digest(call->digest) : !call->digest.empty()) std::abort();
  for (std::size_t i = shape->values; i < values_count; ++i)
    if (call->values[i] != 0) std::abort();
  if (call->verb == Verb::vmm_launch && call->values[launch_memory_mib] > memory_mib_max) std::abort();
  if (call->sequence != sequence_of(datagram)) std::abort();
  return 0;
}
