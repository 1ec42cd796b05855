#include "netd/resolver.h"

#include <algorithm>

#include "core/host_name.h"
#include "netd/dns_chain.h"

namespace space::netd {

namespace {

// "1.2.3.4:53", "[::1]:53", or an address alone, IPv6 also without brackets.
std::optional<ResolverEndpoint> endpoint_of(std::string_view text) {
  if (const auto address = IpAddress::parse(text)) return ResolverEndpoint{.address = *address};
  const auto parsed = parse_authority(text);
  if (!parsed || !parsed->host.address) return std::nullopt;
  return ResolverEndpoint{.address = *parsed->host.address, .port = parsed->port.value_or(53)};
}

void append_addresses(const DnsReply& reply, const std::string& name, DnsType type,
                      std::vector<IpAddress>& out) {
  const auto chain = follow_chain(reply.answers, name, type);
  if (!chain) return;
  for (const DnsRecord& record : chain->records) {
    const auto address = address_in(record);
    if (address && std::ranges::find(out, *address) == out.end()) out.push_back(*address);
  }
}

}  // namespace

Result<ResolverEndpoint> parse_resolver_endpoint(std::string_view text) {
  if (const auto endpoint = endpoint_of(text)) return *endpoint;
  return fail(Code::invalid_argument, "{} is no address of a resolver, such as 192.0.2.1 or [2001:db8::1]:53",
              quoted(text));
}

std::vector<ResolverEndpoint> resolvers_of(std::string_view resolv_conf) {
  constexpr std::string_view key = "nameserver";
  constexpr std::string_view blanks = " \t\r";
  std::vector<ResolverEndpoint> found;
  while (!resolv_conf.empty()) {
    std::string_view line = resolv_conf.substr(0, resolv_conf.find('\n'));
    resolv_conf.remove_prefix(std::min(line.size() + 1, resolv_conf.size()));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == 0 || begin == std::string_view::npos) continue;
    line.remove_prefix(begin);
    const auto address = IpAddress::parse(line.substr(0, line.find_first_of(blanks)));
    if (address) found.push_back({.address = *address});
  }
  return found;
}

struct Resolver::Core : std::enable_shared_from_this<Core> {
  using Key = std::pair<std::string, DnsType>;
  using Answer = Result<std::shared_ptr<const DnsReply>>;
  // One question upstream, for all who wait for it; it goes on when nobody does.
  struct Flight {
    explicit Flight(const Executor& executor) : landed(executor) {}
    Event landed;
    std::optional<Answer> answer;
  };

  Core(const Executor& on, std::unique_ptr<DnsUpstream> asked, const Clock& clock)
      : executor(on), upstream(std::move(asked)), cache(clock) {}

  std::shared_ptr<Flight> begin(const std::string& name, DnsType type) {
    if (auto reply = cache.find(name, type)) return landed(std::move(reply));
    const auto under_way = flights.find(Key(name, type));
    if (under_way != flights.end()) return under_way->second;
    if (flights.size() >= max_under_way) {
      return landed(fail(Code::exhausted, "too many names are being resolved"));
    }
    auto flight = std::make_shared<Flight>(executor);
    flights.emplace(Key(name, type), flight);
    spawn(executor, "resolve", fly(shared_from_this(), Key(name, type), flight));
    return flight;
  }

  std::shared_ptr<Flight> landed(Answer answer) const {
    auto flight = std::make_shared<Flight>(executor);
    flight->answer.emplace(std::move(answer));
    return flight;
  }

  static Task<void> fly(std::shared_ptr<Core> core, Key key, std::shared_ptr<Flight> flight) {
    auto reply = co_await core->upstream->ask(key.first, key.second, Deadline::after(ask_time));
    if (reply) {
      auto kept = std::make_shared<const DnsReply>(*std::move(reply));
      core->cache.put(key.first, key.second, kept);
      flight->answer.emplace(std::move(kept));
    } else {
      flight->answer.emplace(std::unexpected(std::move(reply).error()));
    }
    core->flights.erase(key);
    flight->landed.notify_all();
  }

  static Task<Answer> wait(std::shared_ptr<Flight> flight, Deadline deadline) {
    while (!flight->answer) {
      if (!co_await flight->landed.wait(deadline)) {
        co_return fail(Code::deadline, "no resolver answered in time");
      }
    }
    co_return *flight->answer;
  }

  Executor executor;
  std::unique_ptr<DnsUpstream> upstream;
  DnsCache cache;
  std::map<Key, std::shared_ptr<Flight>> flights;
};

Resolver::Resolver(const Executor& executor, std::unique_ptr<DnsUpstream> upstream, const Clock& clock)
    : core_(std::make_shared<Core>(executor, std::move(upstream), clock)) {}

Resolver::~Resolver() = default;

Task<Result<std::shared_ptr<const DnsReply>>> Resolver::query(std::string name, DnsType type,
                                                              Deadline deadline) {
  return Core::wait(core_->begin(name, type), deadline);
}

Task<Result<std::vector<IpAddress>>> Resolver::addresses(std::string name, Deadline deadline) {
  const auto v4 = core_->begin(name, DnsType::a);
  const auto v6 = core_->begin(name, DnsType::aaaa);
  const auto a = co_await Core::wait(v4, deadline);
  const auto aaaa = co_await Core::wait(v6, deadline);
  std::vector<IpAddress> found;
  if (a) append_addresses(**a, name, DnsType::a, found);
  if (aaaa) append_addresses(**aaaa, name, DnsType::aaaa, found);
  if (!found.empty()) co_return found;
  // That one family is not there says nothing when the other could not be asked for.
  if (!a) co_return std::unexpected(a.error());
  if (!aaaa) co_return std::unexpected(aaaa.error());
  co_return fail(Code::not_found, "{} has no address", name);
}

}  // namespace space::netd
