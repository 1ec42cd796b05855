// The first byte is the number of descriptors and who asks, the rest the datagram.
#include <cstdlib>

#include "base/bytes.h"
#include "base/ids.h"
#include "noded/door.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space;
  using namespace space::noded;
  if (size == 0) return 0;
  const auto datagram = std::as_bytes(std::span(data + 1, size - 1));
  constexpr Client clients[] = {Client::sandboxd, Client::netd, Client::volumed};
  const std::size_t descriptors = data[0] % 64;
  const Client client = clients[data[0] / 64 % 3];
  const auto call = Gate::admit(datagram, descriptors, client);
  if (!call) {
    const Reply reply = make_reply(sequence_of(datagram), call.error());
    if (reply.status == 0 || reply.message[sizeof reply.message - 1] != '\0') std::abort();
    return 0;
  }
  const VerbShape* shape = shape_of(call->verb);
  if (shape == nullptr || shape->descriptors != descriptors) std::abort();
  if ((shape->clients & static_cast<unsigned>(client)) == 0) std::abort();
  if (shape->sandbox ? !is_sandbox_id(call->sandbox->id()) : call->sandbox.has_value()) std::abort();
  if (call->source ? !is_sandbox_id(call->source->id()) : shape->source) std::abort();
  if (call->source && !shape->source && !shape->may_source) std::abort();
  if (shape->digest ? !is_digest(call->template_->digest()) : call->template_.has_value()) std::abort();
  for (std::size_t i = shape->values; i < values_count; ++i)
    if (call->values[i] != 0) std::abort();
  if (call->verb == Verb::vmm_launch && call->values[launch_memory_mib] > memory_mib_max) std::abort();
  if (call->verb == Verb::snapshot_begin && (call->values[0] == 0 || call->values[0] > snapshot_number_max ||
                                             call->values[1] > snapshot_number_max))
    std::abort();
  if (call->verb == Verb::vmm_launch && call->source.has_value() != (call->values[launch_second_disk] != 0))
    std::abort();
  if (call->sequence != sequence_of(datagram)) std::abort();
  return 0;
}
