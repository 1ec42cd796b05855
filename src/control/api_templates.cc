#include "base/ids.h"
#include "base/log.h"
#include "control/api.h"
#include "control/sandbox_json.h"
#include "control/template_manifest.h"

namespace space::control {
namespace {

constexpr Millis import_patience{600'000};  // copies a disk image
constexpr Millis remove_patience{30'000};

Reply refuse(const Error& error) {
  return to_reply(to_api_error(error));
}

struct AddTemplate {
  std::string digest;
  std::optional<std::string> name;
};

Result<AddTemplate> parse_add_template(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  AddTemplate request;
  SPACE_TRY(request.digest, require_text(body, "digest"));
  if (!is_digest(request.digest))
    return fail(Code::invalid_argument,
                "'digest' must be 64 lower-case hex digits. `space template build` prints it");
  SPACE_TRY(request.name, text_member(body, "name"));
  return request;
}

Result<store::Template> row_of(const JsonObject& manifest, const AddTemplate& request, Wall now) {
  SPACE_TRY(store::Template row, read_manifest(manifest, request.digest, request.name));
  row.id = to_hex(random_bytes(10));
  row.updated_at = now;
  return row;
}

}  // namespace

Task<Reply> Api::list_templates(ApiRequest) {
  const auto rows = co_await repository_.list_templates();
  if (!rows) co_return refuse(rows.error());
  JsonArray body;
  for (const store::Template& row : *rows) body.push_back(template_json(row));
  co_return Reply{.status = 200, .body = to_text(body), .fields = {}};
}

Task<Reply> Api::add_template(ApiRequest request) {
  const auto wanted = parse_add_template(request.body);
  if (!wanted) co_return refuse(wanted.error());
  const auto node = co_await nodes_.wait(Deadline::after(sandboxes_.limits().node_patience));
  if (!node)
    co_return to_reply(
        {503, "No node is connected. Is space-sandboxd running?", "sandbox_no_compatible_node", ""});
  const auto manifest =
      co_await node->call("template/import", {{"digest", wanted->digest}}, Deadline::after(import_patience));
  if (!manifest) co_return refuse(manifest.error());
  auto row = row_of(*manifest, *wanted, clock_.wall());
  if (!row) co_return refuse(row.error());
  const auto stored = co_await repository_.put_template(*std::move(row));
  if (!stored) co_return refuse(stored.error());
  log::info("template added", {{"template", stored->name}, {"digest", stored->digest}});
  co_return Reply{.status = 201, .body = to_text(template_json(*stored)), .fields = {}};
}

// The name goes at once; the node's copy goes when no other name stands for it. Sandboxes have clones of
// their own.
Task<Reply> Api::remove_template(ApiRequest request) {
  const auto removed = co_await repository_.remove_template(request.route.id);
  if (!removed) co_return refuse(removed.error());
  if (!*removed)
    co_return to_reply({404,
                        fmt::format("Template '{}' was not found. `space template ls` shows those that exist",
                                    request.route.id),
                        "", ""});
  const auto rest = co_await repository_.list_templates();
  if (!rest) co_return refuse(rest.error());
  const bool used =
      std::ranges::any_of(*rest, [&](const auto& row) { return row.digest == (*removed)->digest; });
  if (const auto node = nodes_.current(); node && !used) {
    const auto done = co_await node->call("template/remove", {{"digest", (*removed)->digest}},
                                          Deadline::after(remove_patience));
    if (!done)
      log::warn("template left on the node", {{"digest", (*removed)->digest}, log::Field(done.error())});
  }
  co_return Reply{.status = 204, .body = {}, .fields = {}};
}

}  // namespace space::control
