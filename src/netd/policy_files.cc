#include "netd/policy_files.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/fd.h"
#include "base/ids.h"
#include "base/log.h"

namespace space::netd {
namespace {

constexpr std::size_t file_bytes_max = std::size_t{4} << 20;
constexpr std::string_view suffix = ".json";
constexpr EgressRights all_rights{.may_internal = true, .force = true};  // checked before it was written

}  // namespace

Result<void> PolicyFiles::write(const std::string& id, const StoredPolicy& stored) const {
  const JsonObject object{{"generation", stored.generation}, {"policy", to_json(stored.policy)}};
  auto written = write_file_durably(path_of(id), to_text(object), 0600);
  if (!written) return wrap(std::move(written).error(), "keep the policy");
  return {};
}

Result<void> PolicyFiles::remove(const std::string& id) const {
  if (::unlink(path_of(id).c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove the policy");
  return {};
}

Result<StoredPolicy> PolicyFiles::read(const std::string& id) const {
  SPACE_TRY(const std::string text, read_file(path_of(id), file_bytes_max));
  SPACE_TRY(const JsonObject object, parse_json_object(text, "policy file"));
  SPACE_TRY(const JsonObject* policy, object_member(object, "policy"));
  if (policy == nullptr) return fail(Code::invalid_argument, "no policy in it");
  StoredPolicy stored;
  SPACE_TRY(stored.policy, parse_egress_policy(*policy, all_rights));
  SPACE_TRY(const std::int64_t generation,
            require_int(object, "generation", 0, std::numeric_limits<std::int64_t>::max()));
  stored.generation = static_cast<std::uint64_t>(generation);
  return stored;
}

Result<std::map<std::string, StoredPolicy>> PolicyFiles::read_all() const {
  std::map<std::string, StoredPolicy> all;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(suffix)) continue;  // a write that was interrupted
    const std::string id = name.substr(0, name.size() - suffix.size());
    if (!is_sandbox_id(id)) continue;
    auto stored = read(id);
    if (stored) {
      all.emplace(id, *std::move(stored));
    } else {
      log::error("a policy cannot be read", {{"sandbox", id}, log::Field(stored.error())});
    }
  }
  if (error) return fail_errno(error.value(), "read the policies");
  return all;
}

}  // namespace space::netd
