#include "store/sha256.h"

#include <openssl/sha.h>

#include <array>

#include "base/bytes.h"

namespace space {

std::string sha256_hex(std::string_view text) {
  std::array<std::byte, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return to_hex(digest);
}

}  // namespace space
