#include "cli/copy_commands.h"

#include <unistd.h>

#include <algorithm>

#include "base/path_text.h"
#include "cli/commands.h"
#include "cli/copy.h"
#include "cli/local_tree.h"
#include "cli/output.h"
#include "cli/sandbox_tree.h"

namespace space::cli {

namespace {

bool is_sandbox_name(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

void add(CopyReport& sum, CopyReport one) {
  sum.files += one.files;
  sum.folders += one.folders;
  sum.links += one.links;
  sum.bytes += one.bytes;
  sum.kept_bytes += one.kept_bytes;
  std::ranges::move(one.left_out, std::back_inserter(sum.left_out));
}

// One run of `space cp`.
class Copier {
 public:
  Copier(const ApiClient& api, const CopyCommand& command, bool visible)
      : api_(api), command_(command), progress_(visible) {}

  Task<Result<CopyReport>> run() {
    SPACE_CO_TRY(const Place to, parse_place(command_.destination));
    CopyReport sum;
    SPACE_CO_TRY(const bool into, co_await prepare(to));
    for (const std::string& source : command_.sources) {
      SPACE_CO_TRY(const Place from, parse_place(source));
      if (from.sandbox.empty() && to.sandbox.empty())
        co_return fail(Code::invalid_argument,
                       "both sides are on this machine: one must be a sandbox's, as in ID:/path");
      SPACE_CO_TRY(CopyReport report, co_await copy(from, to, into));
      add(sum, std::move(report));
    }
    co_return sum;
  }

 private:
  Task<Result<std::unique_ptr<Tree>>> tree(std::string sandbox, std::string path) {
    if (sandbox.empty()) co_return LocalTree::open(path);
    auto& target = targets_[sandbox];
    if (!target) {
      SPACE_CO_TRY(Target found, co_await api_.connect_sandbox(sandbox));
      target = std::make_shared<const Target>(std::move(found));
    }
    co_return std::make_unique<SandboxTree>(RemoteFiles(api_, target, command_.user), path);
  }

  // True: the destination is a folder, and the sources go into it.
  Task<Result<bool>> prepare(const Place& to) {
    SPACE_CO_TRY(const auto destination, co_await tree(to.sandbox, to.path));
    SPACE_CO_TRY(const auto there, co_await destination->stat(""));
    const bool folder = there && there->kind == Entry::Kind::directory;
    if (folder) co_return true;
    if (there && (to.is_folder || command_.sources.size() > 1))
      co_return fail(Code::conflict, "{} is no folder", command_.destination);
    if (to.is_folder) SPACE_CO_CHECK(co_await destination->make_directory(""));
    if (!to.is_folder && command_.sources.size() > 1)
      co_return fail(Code::not_found, "{} does not exist: end it with / to have the folder made",
                     command_.destination);
    co_return to.is_folder;
  }

  Task<Result<CopyReport>> copy(Place from, Place to, bool into) {
    SPACE_CO_TRY(const auto source, co_await tree(from.sandbox, from.path));
    SPACE_CO_TRY(const auto entry, co_await source->stat(""));
    if (!entry) co_return fail(Code::not_found, "{} does not exist", source->describe(""));
    const bool folder = entry->kind == Entry::Kind::directory;
    if ((from.is_folder || from.contents) && !folder)
      co_return fail(Code::invalid_argument, "{} is no folder", source->describe(""));
    const std::string name = from.contents || !into ? "" : last_name(from.path);
    SPACE_CO_TRY(const auto destination, co_await tree(to.sandbox, join(to.path, name)));
    if (source->describe("") == destination->describe(""))
      co_return fail(Code::invalid_argument, "{} would be copied onto itself", source->describe(""));
    SPACE_CO_TRY(const auto there, co_await destination->stat(""));
    if (there && (there->kind == Entry::Kind::directory) != folder)
      co_return fail(Code::conflict, "{} exists and is {} folder", destination->describe(""),
                     folder ? "no" : "a");
    co_return co_await copy_tree(*source, *destination, {.resume = command_.resume}, progress_);
  }

  const ApiClient& api_;
  const CopyCommand& command_;
  std::map<std::string, std::shared_ptr<const Target>> targets_;
  Progress progress_;
};

Task<Result<CopyReport>> run(const ApiClient& api, const CopyCommand& command, bool visible) {
  Copier copier(api, command, visible);
  co_return co_await copier.run();
}

void print_report(const CommonOptions& common, const CopyCommand& command, const CopyReport& report) {
  for (const std::string& line : report.left_out) note("left out: " + printable(line));
  if (common.json) {
    JsonArray left_out;
    for (const std::string& line : report.left_out) left_out.emplace_back(text_of_path(line));
    print_json(JsonObject{{"files", report.files},
                          {"folders", report.folders},
                          {"links", report.links},
                          {"bytes", report.bytes},
                          {"kept_bytes", report.kept_bytes},
                          {"left_out", std::move(left_out)}});
  } else if (!command.quiet && ::isatty(STDERR_FILENO) == 1) {
    const std::string kept = report.kept_bytes > 0 ? ", " + byte_text(report.kept_bytes) + " were there" : "";
    note(fmt::format("copied {} file{} ({}{})", report.files, report.files == 1 ? "" : "s",
                     byte_text(report.bytes), kept));
  }
}

}  // namespace

Result<Place> parse_place(std::string_view text) {
  Place place;
  const auto colon = text.find(':');
  if (colon != std::string_view::npos && is_sandbox_name(text.substr(0, colon))) {
    place.sandbox = text.substr(0, colon);
    text.remove_prefix(colon + 1);
    if (text.empty()) text = ".";  // the home folder
  }
  if (text.empty())
    return fail(Code::invalid_argument, "an empty path: name a file, or ID:path for one in a sandbox");
  place.contents = text == "." || text.ends_with("/.");
  place.is_folder = text.ends_with('/') || text == ".." || text.ends_with("/..");
  place.path = text;
  if (!place.sandbox.empty() && text == ".") place.path = "~";
  return place;
}

int command_copy(const CommonOptions& common, const CopyCommand& command) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const bool visible = !command.quiet && !common.json && ::isatty(STDERR_FILENO) == 1;
  const auto copied = run_loop(run(*api, command, visible));
  if (!copied) {
    const int code = report(copied.error());
    if (copied.error().code == Code::unavailable)
      note("run it again with --resume to go on where it stopped");
    return code;
  }
  print_report(common, command, *copied);
  return 0;
}

}  // namespace space::cli
