// What a proxied head becomes on the other side: hop-by-hop fields end here, the rest passes untouched. Pure.
#pragma once

#include "control/router.h"
#include "control/sandbox_service.h"
#include "net/http.h"

namespace space::control {

inline constexpr std::string_view traffic_token_header = "e2b-traffic-access-token";

http::RequestHead to_guest(const http::RequestHead& head, const DataPlaneTarget& target, std::uint16_t port);
http::ResponseHead to_client(const http::ResponseHead& head);

}  // namespace space::control
