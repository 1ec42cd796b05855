// Whatever text: it is refused, or what it says survives being written and read again.
#include <cstdlib>

#include "vmm/snapshot_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace space::vmm;
  if (cpu_model(Accelerator::kvm, text).size() > 100) std::abort();
  const auto manifest = parse_snapshot_manifest(text);
  if (!manifest) return 0;
  const auto again = parse_snapshot_manifest(to_text(*manifest));
  if (!again || *again != *manifest) std::abort();
  return 0;
}
