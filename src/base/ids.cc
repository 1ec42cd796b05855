#include "base/ids.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace space {

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::getrandom(bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) std::abort();  // a machine without randomness must not hand out tokens
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

Bytes random_bytes(std::size_t count) {
  Bytes bytes(count);
  fill_random(bytes);
  return bytes;
}

namespace {

constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view mixed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// Rejection sampling: every character of the alphabet is equally likely.
std::string random_text(std::string_view alphabet, std::size_t length) {
  const unsigned limit =
      256U / static_cast<unsigned>(alphabet.size()) * static_cast<unsigned>(alphabet.size());
  std::string out;
  while (out.size() < length) {
    for (const std::byte b : random_bytes(length)) {
      const auto value = std::to_integer<unsigned>(b);
      if (value < limit && out.size() < length) out += alphabet[value % alphabet.size()];
    }
  }
  return out;
}

bool all_in(std::string_view text, std::string_view alphabet) {
  return std::ranges::all_of(text, [&](char c) { return alphabet.contains(c); });
}

}  // namespace

std::string new_sandbox_id() {
  return "i" + random_text(lower, sandbox_id_length - 1);
}

bool is_sandbox_id(std::string_view text) {
  return text.size() == sandbox_id_length && text.front() == 'i' && all_in(text, lower);
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && all_in(text, "0123456789abcdef");
}

std::string new_api_key() {
  return "e2b_" + to_hex(random_bytes(20));
}

std::string new_token() {
  return random_text(mixed, 32);
}

}  // namespace space
