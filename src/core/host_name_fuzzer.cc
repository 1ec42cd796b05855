// Names, authorities, patterns and blocks: a canonical form is its own, never an address, and says one thing
// however it is written.
#include <algorithm>
#include <cstdlib>

#include "core/host_name.h"
#include "core/request_path.h"

using namespace space;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_name(std::string_view text) {
  const auto name = canonical_host_name(text);
  if (const auto wire = wire_host_name(text)) require(name && *name == *wire);
  if (!name) return;
  require(!name->empty() && name->size() <= 253 && !name->starts_with('.') && !name->ends_with('.'));
  require(std::ranges::all_of(*name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  }));
  require(!IpAddress::parse(*name));
  const auto again = wire_host_name(*name + ".");
  require(again && *again == *name);
  const auto exact = HostPattern::parse(*name), below = HostPattern::parse("*." + *name);
  require(exact && below && exact->matches(*name) && !below->matches(*name) && !exact->covers(*below));
  (void)is_public_suffix(*name);
}

void read_pattern(std::string_view text) {
  const auto pattern = HostPattern::parse(text);
  if (!pattern) return;
  const auto again = HostPattern::parse(pattern->text());
  require(again && *again == *pattern && pattern->covers(*pattern));
}

void read_block(std::string_view text) {
  const auto block = Cidr::parse(text);
  if (!block) return;
  const auto again = Cidr::parse(block->text());
  require(again && *again == *block);
  require(block->contains(block->first()) && block->contains(block->last()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_name(text);
  read_pattern(text);
  read_block(text);
  if (const auto authority = parse_authority(text)) {
    require(authority->host.name.empty() == authority->host.address.has_value());
    const auto again = parse_host(authority->host.text());
    require(again && again->name == authority->host.name && again->address == authority->host.address);
  }
  const std::string pattern(text.substr(0, text.find('\n')));
  if (const auto path = text.substr(std::min(pattern.size() + 1, text.size()));
      path_matches({&pattern, 1}, path))
    require(path.starts_with('/') && !path.contains("/../") && !path.contains("//"));
  for (const char c : space::quoted(text)) require(c >= ' ' && c <= '~');
  return 0;
}
