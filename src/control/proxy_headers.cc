#include "control/proxy_headers.h"

#include <algorithm>
#include <array>

namespace space::control {
namespace {

constexpr std::array hop_by_hop =
    std::to_array<std::string_view>({"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
                                     "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "Upgrade"});

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}
bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Named by Connection as belonging to this hop only.
bool ends_here(const http::Fields& fields, std::string_view name) {
  return std::ranges::any_of(hop_by_hop, [&](auto hop) { return same_name(hop, name); }) ||
         fields.has_token("Connection", name);
}

http::Fields passing(const http::Fields& fields) {
  http::Fields out;
  for (const auto& [name, value] : fields.all())
    if (!ends_here(fields, name)) out.add(name, value);
  return out;
}

void keep_upgrade(const http::Fields& from, http::Fields& to) {
  to.set("Connection", "Upgrade");
  if (const auto protocol = from.get("Upgrade")) to.set("Upgrade", *protocol);
}

// The port takes the place of ${PORT}.
std::string masked_host(std::string mask, std::uint16_t port) {
  constexpr std::string_view placeholder = "${PORT}";
  for (auto at = mask.find(placeholder); at != std::string::npos; at = mask.find(placeholder, at))
    mask.replace(at, placeholder.size(), std::to_string(port));
  return mask;
}

}  // namespace

http::RequestHead to_guest(const http::RequestHead& head, const DataPlaneTarget& target, std::uint16_t port) {
  http::RequestHead out;
  out.method = head.method;
  out.target = head.target;
  out.content_length = head.content_length;
  out.chunked = head.chunked;
  out.fields = passing(head.fields);
  // Answered at this hop, when the body is first read.
  out.fields.remove("Expect");
  // The edge's secret, not the guest's.
  out.fields.remove(traffic_token_header);
  const std::string host(head.fields.get("Host").value_or(""));
  if (!out.fields.get("X-Forwarded-Host")) out.fields.add("X-Forwarded-Host", host);
  if (!target.mask_request_host.empty() && port != envd_port) {
    out.fields.set("Host", masked_host(target.mask_request_host, port));
    out.fields.set("X-Forwarded-Host", host);
  }
  if (head.wants_upgrade()) {
    keep_upgrade(head.fields, out.fields);
  } else {
    out.fields.set("Connection", "close");  // one exchange a tunnel
  }
  return out;
}

http::ResponseHead to_client(const http::ResponseHead& head) {
  http::ResponseHead out;
  out.status = head.status;
  out.content_length = head.content_length;
  out.fields = passing(head.fields);
  if (head.status == 101) keep_upgrade(head.fields, out.fields);
  return out;
}

}  // namespace space::control
