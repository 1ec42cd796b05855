// A DNS message that parses says the same when it is written and parsed again, and every name in it has a
// form on the wire.
#include <cstdlib>

#include "netd/dns_answer.h"
#include "netd/dns_cache.h"
#include "netd/dns_chain.h"
#include "netd/reverse_name.h"

namespace {

using namespace space;
using namespace space::netd;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_name(const std::string& name) {
  const Bytes wire = name_to_wire(name);
  require(!wire.empty() && wire.size() <= dns_limits::name_bytes);
}

void check_chain(const DnsMessage& message) {
  const auto chain = follow_chain(message.answers, message.question.name, message.question.type);
  if (!chain) return;
  require(chain->cnames.size() <= max_cnames && chain->records.size() <= max_chain_records);
  for (const DnsRecord& record : chain->records) require(record.type == message.question.type);
}

// What is left of a service binding has nothing more to lose.
void check_binding(const DnsRecord& record) {
  const auto plain = plain_service_binding(record);
  if (!plain) return;
  require(plain->record.data.size() <= record.data.size());
  const auto again = plain_service_binding(plain->record);
  require(again && again->record == plain->record && again->target == plain->target);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto header = query_header(bytes);
  const auto message = parse_dns(bytes);
  if (!message) return 0;
  require(message->response || header->id == message->id);
  require(message->answers.size() + message->authority.size() <= dns_limits::records);
  check_name(message->question.name);
  for (const DnsRecord& record : message->answers) {
    check_name(record.name);
    (void)address_in(record);
    check_binding(record);
    if (const auto name = name_in(record)) check_name(*name);
  }
  check_chain(*message);
  (void)block_of_reverse_name(dns_lower(message->question.name));
  if (const auto reply = reply_of(*message)) require(reply->ttl_s >= min_ttl_s && reply->ttl_s <= max_ttl_s);

  DnsAnswer answer = answer_to(*message);
  answer.records = message->answers;
  const Bytes written = write_answer(answer, 65535);
  const auto again = parse_dns(written);
  require(again && again->id == message->id && again->question == message->question);
  require(again->edns.has_value() == message->edns.has_value());
  require(again->truncated || again->answers == message->answers);
  require(parse_dns(write_answer(answer, dns_limits::udp_plain_bytes)).has_value());
  return 0;
}
