#include "cli/doctor.h"

#include <unistd.h>

#include <algorithm>

#include "cli/doctor/api_checks.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/host_machine.h"
#include "cli/doctor/report.h"
#include "cli/output.h"
#include "cli/settings.h"

namespace space::cli {

namespace {

// What 'space up' left together with the key. Empty when the API is on another machine.
std::string local_address(const CommonOptions& common) {
  const auto settings = load_settings(common.api_url, "whatever");  // the address does not depend on the key
  if (!settings || !settings->host.starts_with("127.")) return "";
  return fmt::format("{}:{}", settings->host, settings->port);
}

// Flags win over the settings file; a file that cannot be read is a finding, not an end.
doctor::Installation installation_of(const CommonOptions& common, const DoctorOptions& options) {
  const auto file = read_config_file(options.config);
  const ConfigFile config = file ? *file : ConfigFile{};
  const auto first = [](const std::string& flag, const std::string& setting, const std::string& otherwise) {
    return !flag.empty() ? flag : !setting.empty() ? setting : otherwise;
  };
  doctor::Installation installation;
  installation.config = options.config;
  installation.key_file = config_path();
  installation.directories.state = first(options.state, config.state, installation.directories.state);
  installation.directories.run = first(options.run, config.run, installation.directories.run);
  // Another run folder is another instance than the file's.
  const std::string told = options.run.empty() ? config.listen : "";
  installation.listen = first(told, local_address(common), installation.listen);
  return installation;
}

}  // namespace

int command_doctor(const CommonOptions& common, const DoctorOptions& options) {
  const doctor::Installation installation = installation_of(common, options);
  std::vector<doctor::Section> sections = examine(doctor::HostMachine(), installation);
  sections.push_back(doctor::api_section(load_settings(common.api_url, common.api_key)));
  if (common.json)
    print_json(to_json(sections));
  else
    fmt::print("{}", to_report(sections, ::isatty(STDOUT_FILENO) == 1));
  const bool broken = std::ranges::any_of(sections, [](const doctor::Section& section) {
    return std::ranges::count(section.findings, doctor::Verdict::bad, &doctor::Finding::verdict) > 0;
  });
  return broken ? exit_failed : 0;
}

}  // namespace space::cli
