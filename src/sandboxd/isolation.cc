#include "sandboxd/isolation.h"

#include <algorithm>
#include <cstring>

namespace space {
namespace {

std::string_view to_string(noded::LayerState state) {
  switch (state) {
    case noded::LayerState::active:
      return "active";
    case noded::LayerState::off:
      return "off";
    case noded::LayerState::unavailable:
      return "unavailable";
  }
  return "";
}

template <std::size_t n>
Result<std::string> text(const char (&field)[n]) {
  const std::size_t size = ::strnlen(field, n);
  if (size == n) return fail(Code::internal, "the isolation report holds a text without an end");
  std::string result(field, size);
  if (std::ranges::any_of(result, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    return fail(Code::internal, "the isolation report holds a control character");
  return result;
}

}  // namespace

Result<std::vector<IsolationLayer>> decode_isolation(std::string_view content) {
  constexpr std::size_t record_size = sizeof(noded::IsolationRecord);
  const std::size_t count = content.size() / record_size;
  if (content.size() % record_size != 0 || count == 0 || count > isolation_layers_max)
    return fail(Code::internal, "the isolation report has a wrong size: {} bytes", content.size());
  std::vector<IsolationLayer> layers;
  for (std::size_t i = 0; i < count; ++i) {
    noded::IsolationRecord record;
    std::memcpy(&record, content.data() + i * record_size, record_size);
    IsolationLayer layer{.name = {}, .state = record.state, .detail = {}};
    SPACE_TRY(layer.name, text(record.layer));
    SPACE_TRY(layer.detail, text(record.detail));
    if (layer.name.empty() || to_string(layer.state).empty())
      return fail(Code::internal, "the isolation report holds a layer without name or state");
    layers.push_back(std::move(layer));
  }
  return layers;
}

JsonArray to_json(const std::vector<IsolationLayer>& layers) {
  JsonArray result;
  for (const IsolationLayer& layer : layers)
    result.push_back(
        JsonObject{{"name", layer.name}, {"state", to_string(layer.state)}, {"detail", layer.detail}});
  return result;
}

}  // namespace space
