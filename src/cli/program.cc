#include "cli/program.h"

#include "cli/config_file.h"
#include "cli/output.h"

namespace space::cli {

Program::Program()
    : app("Run AI agents' code in virtual machines that appear in an instant.\n\n"
          "  sudo space up -d                                start the platform on this machine\n"
          "  sudo space run -- python3 -c 'print(6*7)'       create a sandbox, run, print, throw it away\n"
          "  sudo space create                               a sandbox that stays; prints its id\n"
          "  sudo space shell ID                             a login shell in it\n",
          "space") {
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Help of every command");
  app.add_option("--api-url", common.api_url,
                 "API address (default: SPACE_API_URL, then ~/.config/space/config.json)");
  app.add_option("--api-key", common.api_key, "API key (default: SPACE_API_KEY, then the same file)");
  app.add_flag("--json", common.json, "One JSON document on standard output, for machines");
}

void add_directories(CLI::App* command, Directories& directories) {
  command->add_option("--state", directories.state, "Where everything durable lives")
      ->envname("SPACE_STATE")
      ->capture_default_str();
  command->add_option("--run", directories.run, "Where sockets live; empty after a reboot")
      ->envname("SPACE_RUN")
      ->capture_default_str();
}

void add_config(CLI::App* command, std::string& path) {
  command->add_option("--config", path, "Configuration file; flags win over it")->capture_default_str();
}

int Program::find_directories(const CLI::App* command, const std::string& config, Directories& directories) {
  const auto found =
      read_directories(config, command->count("--state") > 0, command->count("--run") > 0, directories);
  return found ? 0 : report(found.error());
}

void add_pairs(CLI::App* command, const std::string& flag, std::map<std::string, std::string>& pairs,
               const std::string& help) {
  const auto parse = [&pairs, flag](const std::vector<std::string>& given) {
    for (const std::string& pair : given) {
      const auto equals = pair.find('=');
      if (equals == std::string::npos || equals == 0)
        throw CLI::ValidationError(flag, "'" + pair + "' must look like NAME=VALUE");
      pairs[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
  };
  command->add_option_function<std::vector<std::string>>(flag, parse, help)
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
}

void add_exec_flags(CLI::App* command, ExecOptions& options) {
  command->add_option("-w,--cwd", options.cwd, "Folder to run in (default: the user's home)");
  command->add_option("-u,--user", options.user, "User to run as (default: the template's)");
  command
      ->add_option("--timeout", options.timeout_seconds,
                   "Kill the command after this many seconds (0: never)")
      ->capture_default_str();
  add_pairs(command, "-e,--env", options.env, "NAME=VALUE for this command; may be repeated");
}

void add_life(CLI::App* command, std::string& life) {
  const auto check = [](const std::string& text) {
    const bool digits =
        !text.empty() && text.size() < 12 && text.find_first_not_of("0123456789") == text.npos;
    if (text == "never" || (digits && std::stoll(text) > 0)) return std::string();
    return "'" + text + "' must be a number of seconds, or never";
  };
  command->add_option("--life", life, "Seconds the sandbox lives unless it is extended, or 'never'")
      ->capture_default_str()
      ->check(CLI::Validator(check, "SECONDS|never"));
}

void add_sandbox_id(CLI::App* command, std::string& sandbox) {
  command->add_option("sandbox", sandbox, "Sandbox id, or the beginning of it")->required();
}

}  // namespace space::cli
