#include "netd/dns_cache.h"

#include <algorithm>

namespace space::netd {

namespace {

// How long a name's not being there is kept when its zone does not say it.
constexpr std::uint32_t default_negative_ttl_s = 30;
constexpr std::size_t soa_minimum_at_end = 4;

std::uint32_t clamp_ttl(std::uint32_t ttl_s) {
  return std::clamp(ttl_s, min_ttl_s, max_ttl_s);
}

std::uint32_t negative_ttl(const DnsMessage& message) {
  for (const DnsRecord& record : message.authority) {
    if (record.type != DnsType::soa || record.data.size() < soa_minimum_at_end) continue;
    const auto minimum = std::span<const std::byte>(record.data).last<soa_minimum_at_end>();
    return std::min(record.ttl, read_be32(minimum));
  }
  return default_negative_ttl_s;
}

}  // namespace

std::size_t DnsReply::bytes() const {
  std::size_t total = sizeof *this;
  for (const DnsRecord& record : answers) {
    total += sizeof record + record.name.capacity() + record.data.capacity();
  }
  return total;
}

Result<DnsReply> reply_of(DnsMessage message) {
  if (!message.response || message.opcode != 0) return fail(Code::unavailable, "the resolver sent no answer");
  if (message.truncated) return fail(Code::unavailable, "the resolver's answer is too large");
  if (message.rcode != DnsRcode::no_error && message.rcode != DnsRcode::nx_domain) {
    return fail(Code::unavailable, "the resolver failed (code {})", static_cast<unsigned>(message.rcode));
  }
  DnsReply reply{.rcode = message.rcode, .answers = std::move(message.answers)};
  std::uint32_t ttl = reply.answers.empty() ? negative_ttl(message) : max_ttl_s;
  for (const DnsRecord& record : reply.answers) ttl = std::min(ttl, record.ttl);
  reply.ttl_s = clamp_ttl(ttl);
  return reply;
}

std::shared_ptr<const DnsReply> DnsCache::find(const std::string& name, DnsType type) {
  const auto found = by_key_.find(Key(name, type));
  if (found == by_key_.end()) return nullptr;
  if (found->second->until <= clock_.monotonic()) {
    erase(found->second);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->reply;
}

void DnsCache::put(const std::string& name, DnsType type, std::shared_ptr<const DnsReply> reply) {
  const auto old = by_key_.find(Key(name, type));
  if (old != by_key_.end()) erase(old->second);
  const std::size_t bytes = reply->bytes() + 2 * name.size() + sizeof(Entry);
  const Monotonic until = clock_.monotonic() + std::chrono::seconds(reply->ttl_s);
  entries_.push_front({.key = Key(name, type), .reply = std::move(reply), .until = until, .bytes = bytes});
  by_key_.emplace(entries_.front().key, entries_.begin());
  bytes_ += bytes;
  while (entries_.size() > max_entries || bytes_ > max_bytes) erase(std::prev(entries_.end()));
}

void DnsCache::erase(Order::iterator entry) {
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace space::netd
