#include "netd/dns_message.h"

#include <algorithm>
#include <array>

#include "netd/wire_reader.h"

namespace space::netd {

namespace {

constexpr unsigned pointer_bits = 0xc0;
constexpr std::size_t max_label = 63;
constexpr std::uint32_t max_ttl = 0x7fffffff;  // RFC 2181: a larger one is none

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::invalid_argument, "DNS message: {}", what);
}

// A message and a place in it. Names need the whole message, as they point backwards.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> message) : message_(message) {}

  bool ok() const { return ok_; }
  bool at_end() const { return at_ == message_.size(); }
  std::size_t place() const { return at_; }

  std::span<const std::byte> take(std::size_t count) {
    if (!ok_ || count > message_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += count;
    return message_.subspan(at_ - count, count);
  }
  std::uint16_t u16() { return WireReader(take(2)).u16(); }
  std::uint32_t u32() { return WireReader(take(4)).u32(); }

  // A name as on the wire, without pointers.
  Bytes name() {
    Bytes wire;
    std::size_t at = at_, segment = at_;
    bool jumped = false;
    while (ok_) {
      const std::size_t length = byte_at(at);
      if (!ok_) break;
      if ((length & pointer_bits) == pointer_bits) {
        const std::size_t target = (length & ~std::size_t{pointer_bits}) << 8 | byte_at(at + 1);
        if (!jumped) at_ = at + 2;
        jumped = true;
        // Only ever further back than where this segment began: no loop.
        ok_ = ok_ && target < segment;
        at = segment = target;
      } else {
        ok_ = length <= max_label && at + 1 + length <= message_.size() &&
              wire.size() + 1 + length <= dns_limits::name_bytes;
        if (!ok_) break;
        const auto label = message_.subspan(at, 1 + length);
        wire.insert(wire.end(), label.begin(), label.end());
        at += 1 + length;
        if (length == 0) break;
      }
    }
    if (ok_ && !jumped) at_ = at;
    return ok_ ? wire : Bytes();
  }

 private:
  std::size_t byte_at(std::size_t at) {
    if (at < message_.size()) return std::to_integer<std::size_t>(message_[at]);
    ok_ = false;
    return 0;
  }

  std::span<const std::byte> message_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

bool is_plain(unsigned char c) {
  return c > ' ' && c < 0x7f && c != '.' && c != '\\';
}

void append_escaped(std::string& text, unsigned char c) {
  if (is_plain(c)) {
    text += static_cast<char>(c);
  } else if (c == '.' || c == '\\') {
    text += {'\\', static_cast<char>(c)};
  } else {
    text += fmt::format("\\{:03}", unsigned{c});
  }
}

std::string text_of_wire(std::span<const std::byte> wire) {
  std::string text;
  WireReader in(wire);
  while (true) {
    const auto label = in.field8();
    if (label.empty()) return text;
    if (!text.empty()) text += '.';
    for (const std::byte byte : label) append_escaped(text, std::to_integer<unsigned char>(byte));
  }
}

// How a type's data that may hold compressed names is laid out: bytes, then names, then the rest.
struct Layout {
  std::size_t before;
  unsigned names;
};
std::optional<Layout> layout_of(DnsType type) {
  switch (type) {
    case DnsType::ns:
    case DnsType::cname:
    case DnsType::ptr:
    case DnsType::dname:
      return Layout{.before = 0, .names = 1};
    case DnsType::mx:
      return Layout{.before = 2, .names = 1};
    case DnsType::srv:
      return Layout{.before = 6, .names = 1};
    case DnsType::soa:
      return Layout{.before = 0, .names = 2};
    default:
      return std::nullopt;
  }
}

void append(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

bool read_data(MessageReader& in, DnsType type, std::size_t length, Bytes& out) {
  const std::size_t end = in.place() + length;
  if (const auto layout = layout_of(type)) {
    append(out, in.take(layout->before));
    for (unsigned i = 0; i < layout->names; ++i) append(out, in.name());
    if (!in.ok() || in.place() > end) return false;
    const std::size_t rest = type == DnsType::soa ? 20 : 0;
    if (end - in.place() != rest) return false;
  }
  append(out, in.take(end - in.place()));
  return in.ok();
}

struct RawRecord {
  DnsRecord record;
  std::uint32_t ttl = 0;  // as on the wire: OPT has other things in it
};

bool read_record(MessageReader& in, RawRecord& out) {
  out.record.name = text_of_wire(in.name());
  out.record.type = static_cast<DnsType>(in.u16());
  out.record.klass = in.u16();
  out.ttl = in.u32();
  out.record.ttl = out.ttl > max_ttl ? 0 : out.ttl;
  const std::size_t length = in.u16();
  return in.ok() && read_data(in, out.record.type, length, out.record.data);
}

bool read_section(MessageReader& in, std::size_t count, std::vector<DnsRecord>& out) {
  for (std::size_t i = 0; i < count; ++i) {
    RawRecord raw;
    if (!read_record(in, raw) || raw.record.type == DnsType::opt) return false;
    out.push_back(std::move(raw.record));
  }
  return true;
}

bool read_additional(MessageReader& in, std::size_t count, DnsMessage& message) {
  for (std::size_t i = 0; i < count; ++i) {
    RawRecord raw;
    if (!read_record(in, raw)) return false;
    if (raw.record.type != DnsType::opt) continue;
    if (message.edns || !raw.record.name.empty()) return false;
    message.edns =
        Edns{.udp_size = raw.record.klass, .version = static_cast<std::uint8_t>(raw.ttl >> 16 & 0xff)};
    const unsigned high = raw.ttl >> 24;
    message.rcode = static_cast<DnsRcode>(high << 4 | static_cast<unsigned>(message.rcode));
  }
  return true;
}

void read_flags(unsigned flags, DnsMessage& message) {
  message.response = (flags & 0x8000U) != 0;
  message.opcode = static_cast<std::uint8_t>(flags >> 11 & 0xfU);
  message.authoritative = (flags & 0x0400U) != 0;
  message.truncated = (flags & 0x0200U) != 0;
  message.recursion_desired = (flags & 0x0100U) != 0;
  message.recursion_available = (flags & 0x0080U) != 0;
  message.rcode = static_cast<DnsRcode>(flags & 0xfU);
}

// One character of a name's text at `at`, which moves behind it; nullopt: a broken escape.
std::optional<std::byte> unescaped(std::string_view text, std::size_t& at) {
  const char c = text[at++];
  if (c != '\\') return std::byte(c);
  const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  if (at < text.size() && !digit(at)) return std::byte(text[at++]);
  if (!digit(at) || !digit(at + 1) || !digit(at + 2)) return std::nullopt;
  const int value = (text[at] - '0') * 100 + (text[at + 1] - '0') * 10 + (text[at + 2] - '0');
  at += 3;
  if (value > 255) return std::nullopt;
  return std::byte(value);
}

}  // namespace

std::string type_name(DnsType type) {
  static constexpr std::array<std::pair<DnsType, std::string_view>, 12> names{{{DnsType::a, "A"},
                                                                               {DnsType::ns, "NS"},
                                                                               {DnsType::cname, "CNAME"},
                                                                               {DnsType::soa, "SOA"},
                                                                               {DnsType::ptr, "PTR"},
                                                                               {DnsType::mx, "MX"},
                                                                               {DnsType::txt, "TXT"},
                                                                               {DnsType::aaaa, "AAAA"},
                                                                               {DnsType::srv, "SRV"},
                                                                               {DnsType::dname, "DNAME"},
                                                                               {DnsType::svcb, "SVCB"},
                                                                               {DnsType::https, "HTTPS"}}};
  const auto found = std::ranges::find(names, type, [](const auto& name) { return name.first; });
  if (found != names.end()) return std::string(found->second);
  return fmt::format("TYPE{}", static_cast<unsigned>(type));
}

Result<DnsMessage> parse_dns(std::span<const std::byte> bytes) {
  MessageReader in(bytes);
  DnsMessage message;
  message.id = in.u16();
  read_flags(in.u16(), message);
  const std::size_t questions = in.u16(), answers = in.u16(), authority = in.u16(), additional = in.u16();
  if (!in.ok()) return malformed("shorter than a header");
  if (questions != 1) return malformed("not one question");
  if (answers + authority + additional > dns_limits::records) return malformed("too many records");
  message.question.name = text_of_wire(in.name());
  message.question.type = static_cast<DnsType>(in.u16());
  message.question.klass = in.u16();
  if (!in.ok()) return malformed("the question");
  if (!read_section(in, answers, message.answers)) return malformed("the answers");
  if (!read_section(in, authority, message.authority)) return malformed("the authority section");
  if (!read_additional(in, additional, message)) return malformed("the additional section");
  if (!in.at_end()) return malformed("bytes after its end");
  return message;
}

std::optional<DnsHeader> query_header(std::span<const std::byte> bytes) {
  if (bytes.size() < dns_limits::header_bytes) return std::nullopt;
  WireReader in(bytes);
  const std::uint16_t id = in.u16();
  DnsMessage message;
  read_flags(in.u16(), message);
  if (message.response) return std::nullopt;
  return DnsHeader{.id = id, .opcode = message.opcode, .recursion_desired = message.recursion_desired};
}

std::optional<IpAddress> address_in(const DnsRecord& record) {
  const std::size_t size = record.type == DnsType::a ? 4 : record.type == DnsType::aaaa ? 16 : 0;
  if (size == 0 || record.klass != internet_class || record.data.size() != size) return std::nullopt;
  return IpAddress::from_bytes(record.data);
}

DnsRecord address_record(std::string name, const IpAddress& address, std::uint32_t ttl) {
  return {.name = std::move(name),
          .type = address.is_v4() ? DnsType::a : DnsType::aaaa,
          .ttl = ttl,
          .data = address.bytes()};
}

std::optional<std::string> name_in(const DnsRecord& record) {
  const auto layout = layout_of(record.type);
  if (!layout || layout->before != 0 || layout->names != 1) return std::nullopt;
  return text_of_wire(record.data);
}

Bytes name_to_wire(std::string_view text) {
  Bytes wire;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length_at = wire.size();
    wire.push_back({});
    while (at < text.size() && text[at] != '.') {
      const auto byte = unescaped(text, at);
      if (!byte) return {};
      wire.push_back(*byte);
    }
    const std::size_t length = wire.size() - length_at - 1;
    if (length == 0 || length > max_label) return {};
    wire[length_at] = std::byte(length);
    if (at == text.size()) break;
    if (++at == text.size()) return {};  // a dot at the end
  }
  wire.push_back({});
  return wire.size() <= dns_limits::name_bytes ? wire : Bytes();
}

std::string dns_lower(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

}  // namespace space::netd
