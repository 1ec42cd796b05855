#include "netd/dns_chain.h"

#include <algorithm>
#include <array>

#include "netd/wire_reader.h"

namespace space::netd {

namespace {

// SvcParamKeys (RFC 9460).
constexpr unsigned mandatory_key = 0;
constexpr std::array<unsigned, 3> removed_keys{4, 5, 6};  // ipv4hint, ech, ipv6hint

bool is_removed(unsigned key) {
  return std::ranges::find(removed_keys, key) != removed_keys.end();
}

void append_be16(Bytes& out, std::size_t value) {
  out.push_back(std::byte(value >> 8 & 0xff));
  out.push_back(std::byte(value & 0xff));
}

// The target's labels, up to and with the empty one; they are never compressed here.
std::span<const std::byte> take_name(WireReader& in, std::span<const std::byte> data) {
  const std::size_t from = data.size() - in.left();
  while (in.ok()) {
    const auto label = in.field8();
    if (label.size() > 63) return {};
    if (label.empty()) break;
  }
  const std::size_t to = data.size() - in.left();
  return in.ok() && to - from <= dns_limits::name_bytes ? data.subspan(from, to - from)
                                                        : std::span<const std::byte>();
}

bool needs_removed(std::span<const std::byte> keys) {
  WireReader in(keys);
  while (in.left() >= 2) {
    if (is_removed(in.u16())) return true;
  }
  return !in.at_end();
}

// Copies the parameters that stay; false: malformed.
bool copy_params(WireReader& in, Bytes& out) {
  long last = -1;
  while (!in.at_end()) {
    const unsigned key = in.u16();
    const auto value = in.field16();
    if (!in.ok() || static_cast<long>(key) <= last) return false;
    last = static_cast<long>(key);
    if (is_removed(key)) continue;
    if (key == mandatory_key && needs_removed(value)) return false;
    append_be16(out, key);
    append_be16(out, value.size());
    out.insert(out.end(), value.begin(), value.end());
  }
  return in.ok();
}

}  // namespace

std::optional<DnsChain> follow_chain(const std::vector<DnsRecord>& answers, std::string_view name,
                                     DnsType type) {
  DnsChain chain;
  std::string at = dns_lower(name);
  while (true) {
    const DnsRecord* alias = nullptr;
    for (const DnsRecord& record : answers) {
      if (record.klass != internet_class || dns_lower(record.name) != at) continue;
      if (record.type == type && chain.records.size() < max_chain_records) {
        chain.records.push_back(record);
      } else if (record.type == DnsType::cname && alias == nullptr) {
        alias = &record;
      }
    }
    if (alias == nullptr || type == DnsType::cname || !chain.records.empty()) return chain;
    const auto target = name_in(*alias);
    if (!target || chain.cnames.size() == max_cnames) return std::nullopt;
    chain.cnames.push_back(*alias);
    at = dns_lower(*target);
  }
}

std::optional<ServiceBinding> plain_service_binding(const DnsRecord& record) {
  WireReader in(record.data);
  const std::size_t priority = in.u16();
  const auto target = take_name(in, record.data);
  if (target.empty()) return std::nullopt;
  ServiceBinding plain{.record = record, .target = {}};
  plain.record.data.clear();
  append_be16(plain.record.data, priority);
  plain.record.data.insert(plain.record.data.end(), target.begin(), target.end());
  // Priority 0 is an alias and has no parameters.
  if (priority == 0 ? !in.at_end() : !copy_params(in, plain.record.data)) return std::nullopt;
  DnsRecord name{.name = {}, .type = DnsType::cname, .data = Bytes(target.begin(), target.end())};
  plain.target = name_in(name).value_or("");
  return plain;
}

}  // namespace space::netd
