// Writing DNS messages: a question to a resolver, an answer to a guest. Pure.
#pragma once

#include <optional>
#include <string>

#include "netd/dns_message.h"

namespace space::netd {

struct DnsExplanation {
  ExtendedError code = ExtendedError::other;
  std::string text;  // one word of core/egress_reason.h
};

// A question with recursion asked for and EDNS; `name` is one that name_to_wire takes.
Bytes write_query(std::uint16_t id, const DnsQuestion& question, bool with_edns);

struct DnsAnswer {
  std::uint16_t id = 0;
  std::uint8_t opcode = 0;
  bool recursion_desired = false;
  DnsRcode rcode = DnsRcode::no_error;
  std::optional<DnsQuestion> question;  // none: it could not be read
  std::vector<DnsRecord> records;
  bool with_edns = false;  // only who asked with it gets it, and with it the explanation
  std::optional<DnsExplanation> explanation;
};
DnsAnswer answer_to(const DnsMessage& query);

// At most `limit` bytes: when the records do not fit, none is in it and the answer says that it is truncated.
Bytes write_answer(const DnsAnswer& answer, std::size_t limit);

}  // namespace space::netd
