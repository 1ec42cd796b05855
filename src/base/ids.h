// Ids and random tokens. Randomness is getrandom(2).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace space {

inline constexpr std::size_t sandbox_id_length = 20;

std::string new_sandbox_id();  // "i" + 19 of [a-z0-9]; one DNS label
bool is_sandbox_id(std::string_view text);
bool is_digest(std::string_view text);  // 64 lower-case hex digits (SHA-256)
std::string new_api_key();              // "e2b_" + 40 hex digits
std::string new_token();                // 32 of [A-Za-z0-9], for X-Access-Token
void fill_random(std::span<std::byte> bytes);
Bytes random_bytes(std::size_t count);

}  // namespace space
