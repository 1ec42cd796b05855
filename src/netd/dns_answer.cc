#include "netd/dns_answer.h"

#include <algorithm>
#include <utility>

namespace space::netd {

namespace {

constexpr std::size_t max_pointer = 0x3fff;
constexpr std::size_t max_suffixes = 128;
constexpr std::uint16_t explanation_option = 15;
constexpr std::size_t max_explanation = 64;

// A message as it is written, with the names that are in it.
class MessageWriter {
 public:
  void u8(unsigned value) { out_.push_back(std::byte(value & 0xff)); }
  void u16(std::size_t value) {
    u8(static_cast<unsigned>(value >> 8));
    u8(static_cast<unsigned>(value));
  }
  void u32(std::uint32_t value) { append_be32(out_, value); }
  void bytes(std::span<const std::byte> data) { out_.insert(out_.end(), data.begin(), data.end()); }
  std::size_t size() const { return out_.size(); }
  Bytes take() { return std::move(out_); }

  // With a pointer to the longest end of it that was written before, upper and lower case told apart.
  void name(std::string_view text) { wire_name(name_to_wire(text)); }
  void wire_name(const Bytes& wire) {
    std::size_t at = 0;
    while (at < wire.size() && wire[at] != std::byte(0)) {
      const std::span<const std::byte> suffix = std::span(wire).subspan(at);
      const auto known = std::ranges::find_if(
          suffixes_, [&](const auto& entry) { return std::ranges::equal(entry.first, suffix); });
      if (known != suffixes_.end()) {
        u16(0xc000U | known->second);
        return;
      }
      if (out_.size() <= max_pointer && suffixes_.size() < max_suffixes) {
        suffixes_.emplace_back(Bytes(suffix.begin(), suffix.end()), out_.size());
      }
      const std::size_t label = 1 + std::to_integer<std::size_t>(wire[at]);
      bytes(suffix.first(label));
      at += label;
    }
    u8(0);
  }
  void question(const DnsQuestion& question) {
    name(question.name);
    u16(static_cast<std::uint16_t>(question.type));
    u16(question.klass);
  }
  void record(const DnsRecord& record) {
    name(record.name);
    u16(static_cast<std::uint16_t>(record.type));
    u16(record.klass);
    u32(record.ttl);
    const std::size_t length_at = out_.size();
    u16(0);
    if (record.type == DnsType::cname) {
      wire_name(record.data);
    } else {
      bytes(record.data);
    }
    const std::size_t length = out_.size() - length_at - 2;
    out_[length_at] = std::byte(length >> 8);
    out_[length_at + 1] = std::byte(length & 0xff);
  }

 private:
  Bytes out_;
  std::vector<std::pair<Bytes, std::size_t>> suffixes_;
};

void write_header(MessageWriter& out, std::uint16_t id, unsigned flags, bool question, std::size_t records,
                  bool edns) {
  out.u16(id);
  out.u16(flags);
  out.u16(question ? 1 : 0);
  out.u16(records);
  out.u16(0);
  out.u16(edns ? 1 : 0);
}

void write_edns(MessageWriter& out, unsigned extended_rcode, const DnsExplanation* explanation) {
  out.u8(0);  // of the root
  out.u16(static_cast<std::uint16_t>(DnsType::opt));
  out.u16(dns_limits::udp_bytes);
  out.u32(extended_rcode << 24);
  if (explanation == nullptr) {
    out.u16(0);
    return;
  }
  const auto text = std::string_view(explanation->text).substr(0, max_explanation);
  out.u16(2 + 2 + 2 + text.size());
  out.u16(explanation_option);
  out.u16(2 + text.size());
  out.u16(static_cast<std::uint16_t>(explanation->code));
  out.bytes(as_bytes(text));
}

Bytes write_whole(const DnsAnswer& answer, bool truncated) {
  MessageWriter out;
  const unsigned rcode = static_cast<unsigned>(answer.rcode);
  const unsigned flags = 0x8000U | unsigned{answer.opcode} << 11 | (truncated ? 0x0200U : 0U) |
                         (answer.recursion_desired ? 0x0100U : 0U) | 0x0080U | (rcode & 0xfU);
  const std::size_t records = truncated ? 0 : answer.records.size();
  write_header(out, answer.id, flags, answer.question.has_value(), records, answer.with_edns);
  if (answer.question) out.question(*answer.question);
  for (std::size_t i = 0; i < records; ++i) out.record(answer.records[i]);
  if (answer.with_edns) write_edns(out, rcode >> 4, answer.explanation ? &*answer.explanation : nullptr);
  return out.take();
}

}  // namespace

Bytes write_query(std::uint16_t id, const DnsQuestion& question, bool with_edns) {
  MessageWriter out;
  write_header(out, id, 0x0100, true, 0, with_edns);
  out.question(question);
  if (with_edns) write_edns(out, 0, nullptr);
  return out.take();
}

DnsAnswer answer_to(const DnsMessage& query) {
  DnsAnswer answer;
  answer.id = query.id;
  answer.opcode = query.opcode;
  answer.recursion_desired = query.recursion_desired;
  answer.question = query.question;
  answer.with_edns = query.edns.has_value();
  return answer;
}

Bytes write_answer(const DnsAnswer& answer, std::size_t limit) {
  Bytes whole = write_whole(answer, false);
  return whole.size() <= limit ? whole : write_whole(answer, true);
}

}  // namespace space::netd
