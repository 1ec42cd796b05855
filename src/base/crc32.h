// CRC-32 as in IEEE 802.3, zip and PNG. Finds accidents, not attacks. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace space {

std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace space
