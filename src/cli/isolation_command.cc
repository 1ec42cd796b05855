#include "cli/isolation_command.h"

#include <algorithm>

#include "cli/api_client.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"

namespace space::cli {

namespace {

constexpr std::string_view only_wall = "the jail is the only wall between a guest and this machine";

std::string text_at(const JsonObject& object, std::string_view key) {
  const auto text = text_member(object, key);
  return text ? text->value_or("?") : "?";
}

std::string_view mark_of(std::string_view state) {
  return state == "active" ? "ok" : state == "unavailable" ? "n/a" : "OFF";
}

std::vector<JsonObject> layers_of(const JsonObject& isolation) {
  std::vector<JsonObject> layers;
  if (const auto given = array_member(isolation, "layers"); given && *given)
    for (const Json& layer : **given) layers.push_back(layer.is_object() ? layer.get_object() : JsonObject());
  return layers;
}

Task<Result<Answer>> fetch(const ApiClient& api, std::string wanted) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  auto answer = co_await api.call("GET", "/v1/sandboxes/" + id + "/isolation", std::nullopt);
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  if (!answer->body.is_object()) co_return fail(Code::internal, "the API sent no isolation report");
  co_return answer;
}

}  // namespace

std::vector<std::string> isolation_lines(const JsonObject& isolation) {
  std::vector<std::string> lines = {printable(text_at(isolation, "summary"))};
  const std::vector<JsonObject> layers = layers_of(isolation);
  std::size_t width = 0;
  for (const JsonObject& layer : layers) width = std::max(width, printable(text_at(layer, "name")).size());
  for (const JsonObject& layer : layers) {
    std::string line =
        fmt::format("{:<3}  {:<{}}  {}", mark_of(text_at(layer, "state")), printable(text_at(layer, "name")),
                    width, printable(text_at(layer, "detail")));
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  const auto hardware = bool_member(isolation, "hardwareIsolation");
  if (!hardware || !hardware->value_or(false))
    lines.push_back(fmt::format("The guest is emulated: {}.", only_wall));
  return lines;
}

bool has_open_layer(const JsonObject& isolation) {
  const std::vector<JsonObject> layers = layers_of(isolation);
  return layers.empty() || std::ranges::any_of(layers, [](const JsonObject& layer) {
           return mark_of(text_at(layer, "state")) == "OFF";
         });
}

std::string wall_notice(const JsonObject& node) {
  const auto decided = bool_member(node, "accelerator_decided");
  if (!decided || !decided->value_or(false))
    return fmt::format("Whether KVM works is tried with the first template; where it does not, {}.",
                       only_wall);
  if (text_at(node, "accelerator") == "kvm") return "";
  return fmt::format("There is no hardware isolation here (TCG): {}.", only_wall);
}

int command_isolation(const CommonOptions& common, const std::string& sandbox) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto answer = run_loop(fetch(*api, sandbox));
  if (!answer) return report(answer.error());
  const JsonObject& isolation = answer->body.get_object();
  if (common.json) {
    print_json(isolation);
  } else {
    for (const std::string& line : isolation_lines(isolation)) print_line(line);
  }
  return has_open_layer(isolation) ? exit_failed : 0;
}

}  // namespace space::cli
