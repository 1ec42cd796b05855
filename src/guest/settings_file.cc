#include "guest/settings_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fd.h"
#include "base/log.h"
#include "guest/detached_work.h"

namespace space::guest {

namespace {

constexpr std::size_t file_limit_bytes =
    8 * 1024 * 1024;               // a control body is at most 1 MiB; escaped text is longer
constexpr Millis save_delay{300};  // the first command of a new sandbox comes first
constexpr Millis write_time{2'000};
constexpr std::int64_t format_version = 1;

// Not flushed to the disk: the kernel does that within seconds, and a quiesce or a shutdown before it.
Result<void> write_settings(const std::string& path, const std::string& text) {
  const std::string folder = path.substr(0, path.rfind('/'));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("make {}", folder));
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  SPACE_TRY(const Fd file, open_fd(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  SPACE_CHECK(write_all(file.get(), as_bytes(text)));
  if (::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno(errno, "replace the settings");
  return {};
}

}  // namespace

std::string settings_text(const GuestState& state) {
  JsonObject variables;
  for (const auto& [name, value] : state.environment) variables[name] = value;
  return to_text(JsonObject{{"version", format_version},
                            {"env", std::move(variables)},
                            {"default_user", state.default_user},
                            {"default_workdir", state.default_workdir}});
}

Result<InitMessage> parse_settings(std::string_view text) {
  SPACE_TRY(JsonObject object, parse_json_object(text, "the settings"));
  SPACE_TRY(const std::int64_t version, require_int(object, "version", 1, INT64_MAX));
  if (version != format_version) return fail(Code::invalid_argument, "the settings have version {}", version);
  object.erase("access_token");  // whoever wrote it there: it does not come from a disk
  return parse_init(object);
}

Result<void> SettingsFile::load() {
  SPACE_TRY(std::string text, read_file(path_, file_limit_bytes));
  SPACE_TRY(InitMessage settings, parse_settings(text));
  take_init(state_, std::move(settings));
  written_ = std::move(text);
  return {};
}

void SettingsFile::save_soon() {
  if (std::exchange(pending_, true)) return;
  spawn(executor_, "save settings", save_later());
}

Task<void> SettingsFile::save_later() {
  do {
    co_await sleep_for(save_delay);
  } while (is_held_());
  if (const auto saved = co_await flush(Deadline::after(write_time)); !saved)
    log::warn("settings not saved", {log::Field(saved.error())});
}

Task<Result<void>> SettingsFile::flush(Deadline deadline) {
  if (!std::exchange(pending_, false)) co_return Result<void>();
  std::string text = settings_text(state_);
  if (text == written_) co_return Result<void>();
  const auto result =
      co_await detached_work([path = path_, text] { return write_settings(path, text); }, deadline);
  if (!result) co_return fail(Code::deadline, "the disk does not answer");
  if (*result) written_ = std::move(text);
  co_return *result;
}

}  // namespace space::guest
