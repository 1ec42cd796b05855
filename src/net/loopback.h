// Which addresses never leave the machine. Pure.
#pragma once

#include <sys/socket.h>

namespace space {

bool is_loopback(const sockaddr_storage& address);  // 127.0.0.0/8, ::1, and the former written as IPv6

}  // namespace space
