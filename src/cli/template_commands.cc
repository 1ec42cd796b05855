#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <memory>

#include "base/ids.h"
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/install.h"
#include "cli/output.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

constexpr Millis import_limit{620'000};  // the API's own limit is 600 s

Result<std::string> recipe_of(const TemplateBuildOptions& options) {
  SPACE_TRY(const std::string images, images_folder());
  const std::string recipe = options.recipe.empty() ? images + "/" + options.name : options.recipe;
  struct stat info{};
  if (::stat(recipe.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return fail(Code::invalid_argument,
                "no recipe at {}: --recipe names a folder made like {}/base (see images/README.md)", recipe,
                images);
  return recipe;
}

// Runs images/build.sh; its progress goes to our standard error, its last line is the digest.
Result<std::string> build(const TemplateBuildOptions& options) {
  SPACE_TRY(const std::string images, images_folder());
  SPACE_TRY(const std::string recipe, recipe_of(options));
  SPACE_TRY(const std::string daemon, sibling_program("space-daemon"));
  const std::string output = options.directories.state + "/images";
  SPACE_TRY(const std::string text, run_program_capture({images + "/build.sh", "--recipe", recipe, "--name",
                                                         options.name, "--daemon", daemon, "--out", output}));
  const auto end = text.find_last_not_of('\n');
  const auto start = text.find_last_of('\n', end == std::string::npos ? 0 : end);
  std::string digest = end == std::string::npos
                           ? ""
                           : text.substr(start == std::string::npos ? 0 : start + 1,
                                         end - (start == std::string::npos ? 0 : start + 1) + 1);
  if (!is_digest(digest)) return fail(Code::internal, "images/build.sh printed no digest");
  return digest;
}

}  // namespace

int command_template_build(const CommonOptions& common, const TemplateBuildOptions& options) {
  if (::geteuid() != 0)
    return report(Error{Code::permission_denied,
                        "building a template needs root: sudo space template build " + options.name});
  const auto digest = build(options);
  if (!digest) return report(digest.error());
  const auto settings = load_settings(common.api_url, common.api_key);
  if (!settings) return report(settings.error());
  const ApiClient api(Settings{settings->host, settings->port, settings->api_key.clone()});
  // The node answers once it has copied the template, booted one of it and taken its checkpoint.
  note("registering template " + options.name + ": the node boots it once and keeps its checkpoint");
  const auto answer =
      run_loop(with_word(api.call("POST", "/v1/templates",
                                  JsonObject{{"digest", *digest}, {"name", options.name}}, import_limit),
                         "taking the checkpoint of " + options.name));
  if (!answer) return report(answer.error());
  if (common.json) {
    print_json(answer->body);
  } else {
    print_line(fmt::format("template {} is {}", options.name, *digest));
  }
  return 0;
}

int command_template_list(const CommonOptions& common) {
  const auto settings = load_settings(common.api_url, common.api_key);
  if (!settings) return report(settings.error());
  const ApiClient api(Settings{settings->host, settings->port, settings->api_key.clone()});
  const auto answer = run_loop(api.call("GET", "/v1/templates", std::nullopt));
  if (!answer) return report(answer.error());
  if (common.json || !answer->body.is_array()) {
    print_json(answer->body);
    return 0;
  }
  std::vector<Row> rows;
  for (const Json& item : answer->body.get_array()) {
    if (!item.is_object()) continue;
    const auto text = [&](std::string_view key) {
      auto value = text_member(item.get_object(), key);
      return value && *value ? **value : std::string("?");
    };
    rows.push_back({text("name"), text("digest").substr(0, 16), text("built_at")});
  }
  print_table({"NAME", "DIGEST", "BUILT"}, rows);
  return 0;
}

int command_template_remove(const CommonOptions& common, const std::string& name) {
  const auto settings = load_settings(common.api_url, common.api_key);
  if (!settings) return report(settings.error());
  const ApiClient api(Settings{settings->host, settings->port, settings->api_key.clone()});
  const auto answer =
      run_loop(api.call("DELETE", "/v1/templates/" + http::percent_encode(name), std::nullopt));
  if (!answer) return report(answer.error());
  print_line("removed " + name);
  return 0;
}

}  // namespace space::cli
