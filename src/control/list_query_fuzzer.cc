// The queries of listings, logs and differences. A cursor made from what was accepted must be accepted and
// say the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "control/list_query.h"
#include "control/log_query.h"
#include "control/snapshot_requests.h"

using namespace space;
using namespace space::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const LogRoute route : {LogRoute::v1, LogRoute::v2})
    if (const auto logs = parse_log_query(text, route);
        logs && (logs->limit < 1 || logs->limit > log_lines_max || logs->wait_ms > 20'000))
      std::abort();
  if (const auto diff = parse_diff_query(text);
      diff && (diff->from < 1 || diff->to < 1 || diff->from == diff->to || diff->limit < 1 ||
               diff->limit > diff_limit_max))
    std::abort();
  (void)parse_snapshots_query(text);
  const auto query = parse_list_query(text);
  if (!query) return 0;
  if (query->limit < 1 || query->limit > page_limit_max || query->states.empty()) std::abort();
  if (!query->after) return 0;
  const bool oldest = query->order == store::Order::oldest_first;
  const auto again = parse_list_query("nextToken=" + encode_cursor(*query->after, query->order) +
                                      (oldest ? "&order=asc" : ""));
  if (!again || again->after->id != query->after->id || again->after->started_at != query->after->started_at)
    std::abort();
  return 0;
}
