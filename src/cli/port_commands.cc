#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/port_forward.h"

namespace space::cli {

namespace {

namespace asio = boost::asio;

void announce(const CommonOptions& common, const Target& target, const std::vector<Forward>& forwards) {
  JsonArray list;
  for (const Forward& forward : forwards) {
    list.push_back(JsonObject{{"local", forward.local}, {"remote", forward.remote}});
    if (!common.json)
      print_line(fmt::format("127.0.0.1:{} -> {} port {}", forward.local, target.sandbox_id, forward.remote));
  }
  if (common.json) print_json(list);
  std::fflush(stdout);
}

// Until Ctrl-C.
Task<Result<int>> forward_ports(const ApiClient& api, const CommonOptions& common,
                                const ForwardOptions& options) {
  std::vector<Forward> forwards;
  for (const std::string& text : options.ports) {
    SPACE_CO_TRY(const Forward forward, parse_forward(text));
    forwards.push_back(forward);
  }
  SPACE_CO_TRY(Target found, co_await api.connect_sandbox(options.sandbox));
  const auto target = std::make_shared<const Target>(std::move(found));
  const Executor executor = co_await asio::this_coro::executor;
  std::vector<std::unique_ptr<PortForward>> listening;
  for (Forward& forward : forwards) {
    SPACE_CO_TRY(auto started, PortForward::start(executor, api, target, forward));
    forward.local = started->local_port();
    listening.push_back(std::move(started));
  }
  asio::signal_set signals(executor, SIGINT, SIGTERM);
  announce(common, *target, forwards);
  co_await signals.async_wait(asio::as_tuple(asio::use_awaitable));
  co_return 0;
}

struct PortUrl {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
};

// By name: `<port>-<id>` below the domain, or below localhost, where every name leads to this machine.
PortUrl url_of(const Settings& settings, const Target& target, int port) {
  PortUrl url;
  if (target.domain.empty()) {
    url.url = fmt::format("http://{}-{}.localhost:{}/", port, target.sandbox_id, settings.port);
  } else {
    url.url = fmt::format("https://{}-{}.{}/", port, target.sandbox_id, target.domain);
  }
  if (const auto& token = target.traffic_token.reveal(); !token.empty())
    url.headers.emplace_back("E2b-Traffic-Access-Token", token);
  return url;
}

// Works wherever the API is, names or not.
std::string curl_line(const Settings& settings, const Target& target, int port, const PortUrl& url) {
  std::string line = "curl";
  std::string address = url.url;
  if (target.domain.empty()) {
    address = fmt::format("http://{}:{}/", settings.host, settings.port);
    line += fmt::format(" -H 'E2b-Sandbox-Id: {}' -H 'E2b-Sandbox-Port: {}'", target.sandbox_id, port);
  }
  for (const auto& [name, value] : url.headers) line += fmt::format(" -H '{}: {}'", name, value);
  return line + " " + address;
}

void print_url(const CommonOptions& common, const Settings& settings, const Target& target, int port) {
  const PortUrl url = url_of(settings, target, port);
  const std::string curl = curl_line(settings, target, port, url);
  if (!common.json) {
    print_line(url.url);
    print_line(curl);
    return;
  }
  JsonObject headers;
  for (const auto& [name, value] : url.headers) headers[name] = value;
  print_json(JsonObject{{"url", url.url}, {"headers", std::move(headers)}, {"curl", curl}});
}

}  // namespace

int command_forward(const CommonOptions& common, const ForwardOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto ended = run_loop(forward_ports(*api, common, options));
  return ended ? *ended : report(ended.error());
}

int command_url(const CommonOptions& common, const UrlOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto target = run_loop(api->connect_sandbox(options.sandbox));
  if (!target) return report(target.error());
  print_url(common, api->settings(), *target, options.port);
  return 0;
}

}  // namespace space::cli
