// The compiled matcher against the slow, obvious reading of the same policy.
#include <cstdio>
#include <cstdlib>

#include "core/egress_reference.h"

using namespace space;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reference::Sample sample({data, size});
  const EgressMatcher matcher(sample.policy());
  for (int questions = 0; questions < 32; ++questions) {
    if (const auto different = reference::disagreement(matcher, sample)) {
      std::fprintf(stderr, "%s\n%s\n", to_text(to_json(matcher.policy())).c_str(), different->c_str());
      std::abort();
    }
    if (sample.empty()) break;
  }
  return 0;
}
