// DnsCache: what resolvers answered, for 5 to 60 s. Bounded in entries and bytes; the one longest unused goes
// first. Belongs to one loop.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "netd/dns_message.h"

namespace space::netd {

// What guests are told of how long an answer holds, whatever its zone says: long enough not to ask at every
// connection, short enough to notice that a service moved.
inline constexpr std::uint32_t min_ttl_s = 5, max_ttl_s = 60;

struct DnsReply {
  DnsRcode rcode = DnsRcode::no_error;  // or nx_domain
  std::vector<DnsRecord> answers;
  std::uint32_t ttl_s = min_ttl_s;  // of all of it, within the limits above

  std::size_t bytes() const;  // about what it takes in memory
};
// The answer section and how long it holds; a reply that is no answer is an error.
Result<DnsReply> reply_of(DnsMessage message);

class DnsCache {
 public:
  static constexpr std::size_t max_entries = 8192;
  static constexpr std::size_t max_bytes = std::size_t{8} << 20;

  explicit DnsCache(const Clock& clock) : clock_(clock) {}

  std::shared_ptr<const DnsReply> find(const std::string& name, DnsType type);
  void put(const std::string& name, DnsType type, std::shared_ptr<const DnsReply> reply);

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  using Key = std::pair<std::string, DnsType>;
  struct Entry {
    Key key;
    std::shared_ptr<const DnsReply> reply;
    Monotonic until;
    std::size_t bytes;
  };
  using Order = std::list<Entry>;  // the newest use first

  void erase(Order::iterator entry);

  const Clock& clock_;
  Order entries_;
  std::map<Key, Order::iterator> by_key_;
  std::size_t bytes_ = 0;
};

}  // namespace space::netd
