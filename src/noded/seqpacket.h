// SEQPACKET unix sockets with descriptors beside the bytes. Never blocks.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace space::noded {

inline constexpr std::size_t descriptors_max = 4;

struct Datagram {
  std::vector<std::byte> bytes;
  std::vector<Fd> descriptors;
  bool truncated = false;  // it was larger than the buffer, or had more descriptors than descriptors_max
};

// Owner root, group `gid`. Takes the place of a socket that an earlier process left.
Result<Fd> listen_seqpacket(const std::string& path, gid_t gid, mode_t mode);
// nullopt when nobody is waiting.
Result<std::optional<Fd>> accept_connection(int listener);
Result<uid_t> peer_uid(int connection);
// nullopt when there is none yet; an error at the end of the connection.
Result<std::optional<Datagram>> receive(int connection, std::size_t bytes_max);
// exhausted when the other side does not read.
Result<void> send(int connection, std::span<const std::byte> bytes, std::span<const Fd> descriptors);

}  // namespace space::noded
