// The JSON messages of process.Process and filesystem.Filesystem, as they come from a client.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/filesystem_messages.h"
#include "guest/process_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace space;
  using namespace space::guest;
  const auto message =
      space::parse_json_object(std::string_view(reinterpret_cast<const char*>(data), size), "the request");
  if (!message) return 0;
  if (const auto start = parse_start(*message)) (void)to_text(process_info(1, start->process, start->tag));
  (void)parse_selector(*message);
  (void)parse_input(*message);
  (void)parse_signal(*message);
  (void)parse_terminal(*message);
  (void)parse_stream_input(*message);

  (void)parse_path(*message);
  const auto path = parse_required_path(*message);
  const auto id = parse_watcher_id(*message);
  const auto move = parse_move(*message);
  const auto list = parse_list(*message);
  (void)parse_watch(*message);
  if ((path && path->empty()) || (id && id->empty()) || (list && list->depth == 0)) std::abort();
  if (move && (move->source.empty() || move->destination.empty())) std::abort();
  return 0;
}
