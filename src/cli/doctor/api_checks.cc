#include "cli/doctor/api_checks.h"

#include "cli/api_client.h"

namespace space::cli::doctor {

namespace {

constexpr Millis answer_limit{5'000};

Finding refused(const Error& error, const std::string& address) {
  if (error.code == Code::unauthenticated)
    return bad(
        "API", "the key is not one of this SPACE", "every command and SDK is refused",
        "unset SPACE_API_KEY E2B_API_KEY and remove --api-key: then the key that 'space up' wrote is used");
  return bad("API", error.message, "no command and no SDK reaches a sandbox",
             "sudo space up -d; when it is up: curl -i http://" + address + "/health (who answers there?)");
}

Finding check_templates(const ApiClient& api) {
  constexpr const char* means = "nothing to make a sandbox from";
  const auto answer = run_loop(api.call("GET", "/v1/templates", std::nullopt, answer_limit));
  if (!answer) return bad("template", answer.error().message, means, "sudo space template build base");
  if (!answer->body.is_array() || answer->body.get_array().empty())
    return bad("template", "none on the node", means, "sudo space template build base");
  return good("template", fmt::format("{} on the node", answer->body.get_array().size()));
}

Finding check_node(const JsonObject& node) {
  const auto accelerator = text_member(node, "accelerator");
  const auto connected = bool_member(node, "connected");
  if (!connected || !*connected || !**connected)
    return bad("node", "not connected", "nothing can be started or reached",
               "wait 5 s and look again; then: grep space-sandboxd in the log that 'space up' names");
  return good("node", "connected, runs guests under " + (accelerator ? accelerator->value_or("?") : "?"));
}

}  // namespace

Section api_section(Result<Settings> settings) {
  Section section{"API", {}};
  if (!settings) {
    section.findings.push_back(bad("API key", settings.error().message, "no command and no SDK is let in",
                                   "sudo space up -d, and run this as the same user"));
    return section;
  }
  section.findings.push_back(good("API key", "found"));
  const std::string address = fmt::format("{}:{}", settings->host, settings->port);
  const ApiClient api(*std::move(settings));
  const auto node = run_loop(api.call("GET", "/v1/node", std::nullopt, answer_limit));
  if (!node) {
    section.findings.push_back(refused(node.error(), address));
    return section;
  }
  if (!node->body.is_object()) {
    section.findings.push_back(bad("API", "what answers at " + address + " is not SPACE",
                                   "no command and no SDK reaches a sandbox",
                                   "ss -ltnp (who has the port?), or set SPACE_API_URL"));
    return section;
  }
  section.findings.push_back(good("API", "answers at " + address));
  section.findings.push_back(check_node(node->body.get_object()));
  section.findings.push_back(check_templates(api));
  return section;
}

}  // namespace space::cli::doctor
