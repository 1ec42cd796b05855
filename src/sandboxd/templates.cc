#include "sandboxd/templates.h"

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"

namespace space {
namespace {

Result<void> check(const std::string& digest) {
  if (!is_digest(digest)) return fail(Code::invalid_argument, "digest is not 64 hexadecimal digits");
  return {};
}

}  // namespace

Task<Result<JsonArray>> Templates::list(Deadline deadline) {
  SPACE_CO_TRY(KernelHoldings held, co_await noded_.list(deadline));
  std::ranges::sort(held.templates);
  std::erase_if(manifests_,
                [&](const auto& entry) { return !std::ranges::binary_search(held.templates, entry.first); });
  JsonArray result;
  for (const std::string& digest : held.templates) {
    auto manifest = co_await get(digest, deadline);
    if (manifest)
      result.push_back(*std::move(manifest));
    else
      log::warn("template manifest is not readable", {{"template", digest}, log::Field(manifest.error())});
  }
  co_return result;
}

Task<Result<JsonObject>> Templates::get(std::string digest, Deadline deadline) {
  SPACE_CO_CHECK(check(digest));
  if (const auto known = manifests_.find(digest); known != manifests_.end()) co_return known->second;
  SPACE_CO_TRY(const std::string text, co_await noded_.template_manifest(digest, deadline));
  SPACE_CO_TRY(JsonObject manifest, parse_json_object(text, "template manifest"));
  manifest["digest"] = digest;
  manifests_[digest] = known_[digest] = manifest;
  co_return manifest;
}

const JsonObject* Templates::known(const std::string& digest) const {
  const auto found = known_.find(digest);
  return found == known_.end() ? nullptr : &found->second;
}

Task<Result<JsonObject>> Templates::import(std::string digest, Deadline deadline) {
  SPACE_CO_CHECK(check(digest));
  SPACE_CO_CHECK(co_await noded_.template_import(digest, deadline));
  log::info("template imported", {{"template", digest}});
  co_return co_await get(digest, deadline);
}

Task<Result<void>> Templates::remove(std::string digest, Deadline deadline) {
  SPACE_CO_CHECK(check(digest));
  manifests_.erase(digest);
  SPACE_CO_CHECK(co_await noded_.template_remove(digest, deadline));
  log::info("template removed", {{"template", digest}});
  co_return Result<void>();
}

}  // namespace space
