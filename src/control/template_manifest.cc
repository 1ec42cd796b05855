#include "control/template_manifest.h"

#include <algorithm>

namespace space::control {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

bool is_template_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || !is_alphanumeric(name.front()) || !is_alphanumeric(name.back()))
    return false;
  return std::ranges::all_of(name,
                             [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

Result<store::Template> read_manifest(const JsonObject& manifest, const std::string& digest,
                                      const std::optional<std::string>& name) {
  store::Template row;
  row.digest = digest;
  if (name) {
    row.name = *name;
  } else {
    SPACE_TRY(row.name, require_text(manifest, "name"));
  }
  if (!is_template_name(row.name))
    return fail(Code::invalid_argument,
                "'name' must be 1 to 128 of a-z, 0-9, '.', '_', '-', with a letter or digit at both ends");
  SPACE_TRY(const JsonObject* shape, object_member(manifest, "shape"));
  if (shape != nullptr) {
    namespace limits = shape_limits;
    SPACE_TRY(row.shape.vcpus, require_int(*shape, "vcpus", limits::vcpus_min, limits::vcpus_max));
    SPACE_TRY(row.shape.memory_mib,
              require_int(*shape, "memory_mib", limits::memory_mib_min, limits::memory_mib_max));
    SPACE_TRY(row.shape.disk_mib,
              require_int(*shape, "disk_mib", limits::disk_mib_min, limits::disk_mib_max));
  }
  SPACE_TRY(const auto user, text_member(manifest, "default_user"));
  SPACE_TRY(const auto workdir, text_member(manifest, "default_workdir"));
  row.default_user = user.value_or("user");
  row.default_workdir = workdir.value_or("/home/" + row.default_user);
  return row;
}

}  // namespace space::control
