#include "netd/dns_service.h"

#include <algorithm>

#include "netd/dns_chain.h"
#include "netd/reverse_name.h"

namespace space::netd {

namespace {

constexpr double default_qps = 50;
constexpr double burst_seconds = 4;  // of questions that nobody asked meanwhile
constexpr std::size_t max_tcp_answer = 65535;

// What a client needs to get to a name. Other types are texts, a way in and out.
bool leads_to_a_name(DnsType type) {
  return type == DnsType::a || type == DnsType::aaaa || type == DnsType::cname || type == DnsType::https ||
         type == DnsType::svcb;
}

bool is_meta(DnsType type) {
  const auto number = static_cast<std::uint16_t>(type);
  return type == DnsType::opt || (number >= first_meta_type && number <= last_meta_type);
}

// Counts what is under way; of a coroutine that holds its service.
class Counted {
 public:
  explicit Counted(std::size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::size_t& count_;
};

}  // namespace

DnsService::DnsService(Resolver& resolver, std::shared_ptr<Pins> pins, std::shared_ptr<DnsObserver> observer,
                       const Clock& clock)
    : resolver_(resolver),
      pins_(std::move(pins)),
      observer_(std::move(observer)),
      unique_names_(clock),
      questions_(default_qps, default_qps * burst_seconds, clock),
      refusals_(default_qps, default_qps * burst_seconds, clock) {}

void DnsService::set_policy(std::shared_ptr<const EgressMatcher> matcher,
                            std::shared_ptr<const PlatformDeny> platform) {
  const double qps = matcher ? static_cast<double>(matcher->policy().limits.dns_qps) : default_qps;
  questions_.set_rate(qps, qps * burst_seconds);
  rules_ = {.matcher = std::move(matcher), .platform = std::move(platform)};
}

Task<std::optional<Bytes>> DnsService::answer(Bytes query, bool over_tcp) {
  const auto self = shared_from_this();
  std::optional<Ask> ask = read(query, over_tcp);
  if (!ask) co_return std::nullopt;
  const bool admitted = questions_.take() && under_way_ < max_under_way;
  flooded_ = !admitted && !refusals_.take();
  if (flooded_) co_return std::nullopt;
  if (!admitted) {
    ask->to_note = ask->answer.question.has_value();
    if (ask->to_note) ask->name = quoted(ask->answer.question->name);
    refuse(*ask, DnsRcode::server_failure, EgressReason::deny_limit, ExtendedError::other);
  } else if (judge(*ask)) {
    const Counted counted(under_way_);
    co_await resolve(*ask);
  }
  if (ask->to_note) note(*ask);
  co_return write_answer(ask->answer, ask->limit);
}

Task<Result<std::vector<IpAddress>>> DnsService::dial_addresses(std::string name, std::uint16_t port,
                                                                Deadline deadline) {
  const auto self = shared_from_this();
  const Rules rules = rules_;
  if (!rules.matcher) co_return fail(Code::permission_denied, "there is no policy");
  if (!unique_names_.admit(rules.matcher->resolve(name).rule, name)) {
    co_return fail(Code::exhausted, "too many names below one wildcard");
  }
  SPACE_CO_TRY(auto addresses, co_await resolver_.addresses(name, deadline));
  std::erase_if(addresses, [&](const IpAddress& address) {
    return !rules.matcher->dialable(*rules.platform, address, port, name).allowed;
  });
  if (addresses.empty()) co_return fail(Code::permission_denied, "{} has no address that is public", name);
  co_return addresses;
}

// nullopt: nothing can be said to it.
std::optional<DnsService::Ask> DnsService::read(std::span<const std::byte> query, bool over_tcp) const {
  const auto header = query_header(query);
  if (!header) return std::nullopt;
  Ask ask;
  ask.rules = rules_;
  ask.limit = over_tcp ? max_tcp_answer : dns_limits::udp_plain_bytes;
  const auto message = query.size() <= dns_limits::query_bytes
                           ? parse_dns(query)
                           : fail(Code::invalid_argument, "DNS message: too large");
  if (!message) {
    ask.answer.id = header->id;
    ask.answer.opcode = header->opcode;
    ask.answer.recursion_desired = header->recursion_desired;
    ask.answer.rcode = DnsRcode::format_error;
    return ask;
  }
  ask.answer = answer_to(*message);
  ask.type = message->question.type;
  if (!message->edns) return ask;
  ask.edns_version = message->edns->version;
  ask.limit = std::max(
      ask.limit,
      std::clamp<std::size_t>(message->edns->udp_size, dns_limits::udp_plain_bytes, dns_limits::udp_bytes));
  return ask;
}

// False: the answer is final, nobody need be asked.
bool DnsService::judge(Ask& ask) {
  const auto& question = ask.answer.question;
  const auto only_code = [&](DnsRcode rcode) {
    ask.answer.rcode = rcode;
    return false;
  };
  if (!question) return false;
  if (ask.answer.opcode != 0) return only_code(DnsRcode::not_implemented);
  if (ask.edns_version != 0) return only_code(DnsRcode::bad_version);
  if (question->klass != internet_class) return only_code(DnsRcode::refused);
  if (is_meta(ask.type)) return only_code(DnsRcode::not_implemented);
  const auto canonical = wire_host_name(question->name);
  ask.to_note = true;
  ask.name = canonical ? *canonical : quoted(question->name);
  if (!ask.rules.matcher) return refuse(ask, DnsRcode::server_failure, EgressReason::no_policy);
  if (!canonical) return refuse(ask, DnsRcode::nx_domain, EgressReason::deny_bad_name);
  ask.verdict = ask.rules.matcher->resolve(ask.name);
  if (!ask.verdict.allowed) return refuse(ask, DnsRcode::nx_domain, ask.verdict.reason);
  return judge_allowed(ask);
}

bool DnsService::judge_allowed(Ask& ask) {
  const bool all = ask.rules.matcher->policy().mode == EgressMode::allow_all;
  if (!all && !leads_to_a_name(ask.type)) {
    return refuse(ask, DnsRcode::no_error, EgressReason::deny_protocol);
  }
  // The node's resolver may know names of the network around it: none of them by its address either.
  const auto block = block_of_reverse_name(ask.name);
  if (block && !(learnable(ask, block->first()) && learnable(ask, block->last()))) {
    return refuse(ask, DnsRcode::nx_domain, EgressReason::deny_filtered, ExtendedError::filtered);
  }
  if (!unique_names_.admit(ask.verdict.rule, ask.name)) {
    return refuse(ask, DnsRcode::server_failure, EgressReason::deny_limit);
  }
  return true;
}

bool DnsService::refuse(Ask& ask, DnsRcode rcode, EgressReason reason, ExtendedError code) const {
  ask.answer.rcode = rcode;
  ask.answer.records.clear();
  ask.answer.explanation = {.code = code, .text = std::string(to_string(reason))};
  ask.verdict.allowed = false;
  ask.verdict.reason = reason;
  return false;
}

bool DnsService::learnable(const Ask& ask, const IpAddress& address) const {
  return ask.rules.matcher->dialable(*ask.rules.platform, address, 0, ask.name).allowed;
}

Task<void> DnsService::resolve(Ask& ask) {
  const bool addresses = ask.type == DnsType::a || ask.type == DnsType::aaaa;
  if (addresses && ask.rules.matcher->policy().dns == EgressDns::synthetic) {
    co_await resolve_synthetic(ask);
    co_return;
  }
  const auto reply = co_await resolver_.query(ask.name, ask.type, Deadline::after(Resolver::ask_time));
  if (!reply) {
    unresolved(ask, reply.error());
  } else {
    answer_from(ask, **reply);
  }
}

Task<void> DnsService::resolve_synthetic(Ask& ask) {
  const auto addresses = co_await resolver_.addresses(ask.name, Deadline::after(Resolver::ask_time));
  if (!addresses && addresses.error().code == Code::not_found) {
    ask.answer.rcode = DnsRcode::nx_domain;
  } else if (!addresses) {
    unresolved(ask, addresses.error());
  } else if (std::ranges::none_of(*addresses, [&](const auto& one) { return learnable(ask, one); })) {
    refuse(ask, DnsRcode::nx_domain, EgressReason::deny_filtered, ExtendedError::filtered);
  } else {
    const auto taken = synthetic_.take(ask.name);
    if (!taken.evicted.empty()) {
      pins_->remove(taken.evicted_addresses.v4);
      pins_->remove(taken.evicted_addresses.v6);
    }
    const IpAddress address = ask.type == DnsType::a ? taken.addresses.v4 : taken.addresses.v6;
    pins_->add(address, ask.name);
    ask.answer.records.push_back(address_record(ask.answer.question->name, address, max_ttl_s));
  }
}

void DnsService::unresolved(Ask& ask, const Error& error) const {
  const EgressReason reason = error.code == Code::exhausted  ? EgressReason::deny_limit
                              : error.code == Code::deadline ? EgressReason::timeout
                                                             : EgressReason::unresolved;
  refuse(ask, DnsRcode::server_failure, reason, ExtendedError::no_reachable_authority);
}

void DnsService::answer_from(Ask& ask, const DnsReply& reply) {
  auto chain = follow_chain(reply.answers, ask.name, ask.type);
  if (!chain) {
    refuse(ask, DnsRcode::server_failure, EgressReason::unresolved, ExtendedError::other);
    return;
  }
  ask.answer.rcode = reply.rcode;
  auto& records = ask.answer.records;
  records = std::move(chain->cnames);
  const std::size_t aliases = records.size();
  for (DnsRecord& record : chain->records) {
    if (auto kept = kept_record(ask, std::move(record))) records.push_back(*std::move(kept));
  }
  if (records.size() == aliases && !chain->records.empty() && ask.type != DnsType::https &&
      ask.type != DnsType::svcb) {
    refuse(ask, DnsRcode::nx_domain, EgressReason::deny_filtered, ExtendedError::filtered);
    return;
  }
  for (DnsRecord& record : records) {
    record.ttl = reply.ttl_s;
    // As it was asked for, in upper and lower case.
    if (dns_lower(record.name) == ask.name) record.name = ask.answer.question->name;
  }
}

// What of a record a sandbox may learn, or nothing.
std::optional<DnsRecord> DnsService::kept_record(const Ask& ask, DnsRecord record) {
  if (record.type == DnsType::a || record.type == DnsType::aaaa) {
    const auto address = address_in(record);
    if (!address || !learnable(ask, *address)) return std::nullopt;
    pins_->add(*address, ask.name);
    return record;
  }
  if (record.type == DnsType::https || record.type == DnsType::svcb) {
    auto plain = plain_service_binding(record);
    if (!plain) return std::nullopt;
    // A client would go on with that name and be refused: without the record it takes this one.
    const auto target = wire_host_name(plain->target);
    const bool usable = plain->target.empty() || (target && ask.rules.matcher->name_may_resolve(*target));
    return usable ? std::optional(std::move(plain->record)) : std::nullopt;
  }
  return record;
}

void DnsService::note(const Ask& ask) const {
  observer_->dns_query({.host = ask.name,
                        .type = ask.type,
                        .allowed = ask.verdict.allowed,
                        .reason = ask.verdict.reason,
                        .rule = ask.verdict.rule});
}

}  // namespace space::netd
