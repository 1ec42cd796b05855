#include "priv/slot_rules.h"

#include <nftables/libnftables.h>

#include <algorithm>
#include <memory>

namespace space::priv {
namespace {

// Changed together with src/priv/slot.nft, which is what a reviewer reads. `tproxy` without a socket that
// listens lets the packet go on to the next rule: without a gateway everything is refused. Marked packets
// alone are routed to this host (slot_network.cc).
constexpr const char* rules = R"(table inet space {
  chain refuse {
    meta l4proto tcp limit rate 20000/second burst 2000 packets reject with tcp reset
    meta l4proto != tcp limit rate 1000/second burst 500 packets reject with icmpx admin-prohibited
    drop
  }
  chain raw {
    type filter hook prerouting priority raw; policy accept;
    iifname "tap0" notrack
  }
  chain pre {
    type filter hook prerouting priority mangle; policy drop;
    iifname "lo" accept
    iifname != "tap0" drop
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } limit rate 50/second burst 50 packets accept
    ip saddr != 10.77.0.2 drop
    ip6 saddr != fd53:5041:4345::2 drop
    ip daddr { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3 } goto refuse
    ip6 daddr { ::/127, ff00::/8 } goto refuse
    udp dport 53 limit rate over 5000/second burst 1000 packets drop
    meta nfproto ipv4 udp dport 53 tproxy ip to :53 meta mark set 0x1 accept
    meta nfproto ipv6 udp dport 53 tproxy ip6 to :53 meta mark set 0x1 accept
    tcp flags syn / fin,syn,rst,ack limit rate over 5000/second burst 1000 packets drop
    meta nfproto ipv4 meta l4proto tcp tproxy ip to :4000 meta mark set 0x1 accept
    meta nfproto ipv6 meta l4proto tcp tproxy ip6 to :4000 meta mark set 0x1 accept
    ip daddr 10.77.0.1 icmp type echo-request limit rate 10/second burst 10 packets accept
    ip6 daddr fd53:5041:4345::1 icmpv6 type echo-request limit rate 10/second burst 10 packets accept
    goto refuse
  }
  chain c_in {
    type filter hook input priority filter; policy drop;
    meta mark 0x1 accept
    iifname "lo" accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, echo-request } accept
    icmp type echo-request accept
  }
  chain c_fwd {
    type filter hook forward priority filter; policy drop;
  }
  chain c_out {
    type filter hook output priority filter; policy drop;
    oifname { "lo", "tap0" } accept
  }
}
table netdev door {
  chain ingress {
    type filter hook ingress device "tap0" priority -200; policy drop;
    ether saddr != 02:53:50:41:43:45 drop
    ether type arp limit rate 50/second burst 50 packets accept
    ether type { ip, ip6 } accept
  }
}
)";

// Policed, not queued: what is too much is dropped, and no packet of a guest waits in this kernel's memory.
std::string limits(std::uint64_t mbit_per_s) {
  if (mbit_per_s == 0) return "";
  const std::uint64_t bytes_per_s = mbit_per_s * 1'000'000 / 8;
  const std::uint64_t burst_bytes = std::max<std::uint64_t>(bytes_per_s / 10, 256 << 10);
  std::string text = "table netdev limits {\n";
  for (const char* way : {"ingress", "egress"})
    text += fmt::format(
        "  chain {0} {{\n    type filter hook {0} device \"tap0\" priority -300; policy accept;\n"
        "    limit rate over {1} bytes/second burst {2} bytes drop\n  }}\n",
        way, bytes_per_s, burst_bytes);
  return text + "}\n";
}

Result<std::string> run_nft(const std::string& commands) {
  const std::unique_ptr<nft_ctx, void (*)(nft_ctx*)> context(::nft_ctx_new(NFT_CTX_DEFAULT), ::nft_ctx_free);
  if (context == nullptr) return fail(Code::internal, "nftables: no memory");
  ::nft_ctx_buffer_error(context.get());
  ::nft_ctx_buffer_output(context.get());
  ::nft_ctx_output_set_flags(context.get(), NFT_CTX_OUTPUT_STATELESS | NFT_CTX_OUTPUT_NUMERIC_ALL);
  if (::nft_run_cmd_from_buffer(context.get(), commands.c_str()) != 0)
    return fail(Code::internal, "nftables: {}", ::nft_ctx_get_error_buffer(context.get()));
  return std::string(::nft_ctx_get_output_buffer(context.get()));
}

}  // namespace

std::string slot_rules(std::uint64_t mbit_per_s) {
  return std::string("flush ruleset\n") + rules + limits(mbit_per_s);
}

Result<void> apply_slot_rules(std::uint64_t mbit_per_s) {
  SPACE_CHECK(run_nft(slot_rules(mbit_per_s)));
  return {};
}

Result<ListedRules> list_slot_rules() {
  SPACE_TRY(std::string listing, run_nft("list ruleset"));
  return without_limits(std::move(listing));
}

ListedRules without_limits(std::string listing) {
  const auto start = listing.find("table netdev limits {");
  const auto end = start == std::string::npos ? start : listing.find("\n}\n", start);
  if (end == std::string::npos) return {std::move(listing), false};
  const std::string table = listing.substr(start, end - start);
  listing.erase(start, end + 3 - start);
  bool limited = true;
  for (const std::string_view way : {"hook ingress device", "hook egress device"}) {
    const auto chain = table.find(way);
    limited = limited && chain != std::string::npos &&
              table.substr(chain, table.find('}', chain) - chain).contains("limit rate over ");
  }
  return {std::move(listing), limited};
}

}  // namespace space::priv
