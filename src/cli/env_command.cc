#include "cli/output.h"
#include "cli/platform_commands.h"
#include "cli/settings.h"

namespace space::cli {

int command_env(const CommonOptions& common) {
  const auto settings = load_settings(common.api_url, common.api_key);
  if (!settings) {
    print_error(settings.error());
    return exit_code_of(settings.error());
  }
  const std::string url = fmt::format("http://{}:{}", settings->host, settings->port);
  const std::string key = settings->api_key.reveal();
  if (common.json) {
    print_json(JsonObject{{"E2B_API_URL", url}, {"E2B_SANDBOX_URL", url}, {"E2B_API_KEY", key}});
    return 0;
  }
  print_line(fmt::format("export E2B_API_URL='{}'", url));
  print_line(fmt::format("export E2B_SANDBOX_URL='{}'", url));
  print_line(fmt::format("export E2B_API_KEY='{}'", key));
  return 0;
}

}  // namespace space::cli
