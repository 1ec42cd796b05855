#include "netd/ares_upstream.h"

#include <algorithm>

#include "base/ids.h"
#include "netd/ares_exchange.h"
#include "netd/dns_answer.h"

namespace space::netd {

namespace {

constexpr std::size_t max_resolvers = 8;

std::uint16_t random_id() {
  std::array<std::byte, 2> bytes{};
  fill_random(bytes);
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[0]) << 8 |
                                    std::to_integer<unsigned>(bytes[1]));
}

// Each letter upper or lower case by chance: the answer repeats it, a forger would have to guess it.
std::string with_random_case(std::string name) {
  const Bytes chance = random_bytes(name.size());
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool upper = (chance[i] & std::byte(1)) != std::byte(0);
    if (upper && name[i] >= 'a' && name[i] <= 'z') name[i] = static_cast<char>(name[i] - 'a' + 'A');
  }
  return name;
}

// Ends the exchange of a coroutine that is cancelled or destroyed.
class ExchangeGuard {
 public:
  explicit ExchangeGuard(std::shared_ptr<AresExchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeGuard() { exchange_->close(); }
  ExchangeGuard(const ExchangeGuard&) = delete;
  ExchangeGuard& operator=(const ExchangeGuard&) = delete;
  AresExchange* operator->() const { return exchange_.get(); }

 private:
  std::shared_ptr<AresExchange> exchange_;
};

class AresUpstream final : public DnsUpstream {
 public:
  AresUpstream(const Executor& executor, std::vector<ResolverEndpoint> resolvers)
      : state_(std::make_shared<State>(State{executor, std::move(resolvers)})) {}

  Task<Result<DnsReply>> ask(std::string name, DnsType type, Deadline deadline) override {
    return ask(state_, std::move(name), type, deadline);
  }

 private:
  struct State {
    Executor executor;
    std::vector<ResolverEndpoint> resolvers;
  };
  struct Heard {
    DnsMessage message;
    bool ours = false;  // it repeats the question to the letter
  };
  enum class Way : unsigned char { udp, tcp };

  static Task<Result<DnsReply>> ask(std::shared_ptr<State> state, std::string name, DnsType type,
                                    Deadline deadline) {
    SPACE_CO_TRY(Heard heard, co_await exchange(state, name, type, Way::udp, deadline));
    if (!heard.ours) {
      // A forgery, or a resolver that changes case. Over TCP nobody on another path can answer.
      SPACE_CO_TRY(heard, co_await exchange(state, name, type, Way::tcp, deadline));
    }
    co_return reply_of(std::move(heard.message));
  }

  static Task<Result<Heard>> exchange(std::shared_ptr<State> state, std::string name, DnsType type, Way way,
                                      Deadline deadline) {
    if (state->resolvers.empty()) co_return fail(Code::unavailable, "no resolver is configured");
    const DnsQuestion question{.name = with_random_case(std::move(name)), .type = type};
    const ExchangeGuard guard(std::make_shared<AresExchange>(state->executor));
    SPACE_CO_CHECK(guard->open(state->resolvers, way == Way::tcp));
    // A resolver that knows no EDNS is asked again without it by c-ares.
    guard->send(write_query(random_id(), question, true));
    const auto answer = co_await guard->answer(deadline);
    if (guard->timeouts() > 0 || !answer) std::ranges::rotate(state->resolvers, state->resolvers.begin() + 1);
    if (!answer) co_return std::unexpected(answer.error());
    if (answer->size() > dns_limits::answer_bytes) {
      co_return fail(Code::unavailable, "the resolver's answer is too large");
    }
    auto message = parse_dns(*answer);
    if (!message) co_return fail(Code::unavailable, "{}", message.error().message);
    if (message->question.type != type || message->question.klass != internet_class ||
        dns_lower(message->question.name) != dns_lower(question.name)) {
      co_return fail(Code::unavailable, "the resolver answered another question");
    }
    const bool ours = way == Way::tcp || message->question.name == question.name;
    co_return Heard{.message = *std::move(message), .ours = ours};
  }

  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<DnsUpstream> make_ares_upstream(const Executor& executor,
                                                std::vector<ResolverEndpoint> resolvers) {
  // Reference-counted and never undone: once a loop is nothing.
  ares_library_init(ARES_LIB_INIT_ALL);
  if (resolvers.size() > max_resolvers) resolvers.resize(max_resolvers);
  return std::make_unique<AresUpstream>(executor, std::move(resolvers));
}

}  // namespace space::netd
