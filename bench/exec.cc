// What the platform adds to a command: exec of /bin/true over the API, next to the same exec issued on the
// bare channel of a VM of the same template; the channel's own floor, an empty control call next to an HTTP/2
// PING; and how many commands a second come through with 50 under way, again next to the bare channel. What
// is compared alternates, so that all see the same machine.

#include <functional>

#include "bench/api.h"
#include "bench/bench_main.h"
#include "bench/report.h"
#include "tests/integration/bare_vm.h"

namespace space::bench {
namespace {

constexpr int warm_up_rounds = 20;
constexpr double platform_share_goal_ms = 1.0;

Deadline limit() {
  return Deadline::after(std::chrono::seconds(120));
}

constexpr int parallel = 50;
constexpr int commands_each = 4;
constexpr int parallel_rounds = 5;
constexpr double parallel_ratio_goal = 0.7;

struct Figures {
  Samples api_parallel, channel_parallel;  // commands a second
  Samples api_exec, channel_exec, control_call, ping;
  Samples platform_share;  // of each round: what the first took longer than the second
};

Result<void> ended_well(const Result<GuestOutput>& output) {
  if (!output) return std::unexpected(output.error());
  if (output->exit_code != 0) return fail(Code::internal, "/bin/true ended with {}", output->exit_code);
  return {};
}

Task<Result<void>> round(Api& api, const ApiSandbox& sandbox, std::shared_ptr<H2Session> session,
                         Figures& figures) {
  const Stopwatch api_exec;
  SPACE_CO_CHECK(ended_well(co_await api.exec(sandbox, {"/bin/true"}, limit())));
  const double through_api = api_exec.ms();

  const Stopwatch channel_exec;
  SPACE_CO_CHECK(ended_well(co_await run_in_guest(session, {"/bin/true"}, limit())));
  const double direct = channel_exec.ms();
  figures.api_exec.add(through_api);
  figures.channel_exec.add(direct);
  figures.platform_share.add(through_api - direct);

  const Stopwatch control_call;
  SPACE_CO_CHECK(co_await session->call({.path = "/control/ping", .body = "{}"}, limit()));
  figures.control_call.add(control_call.ms());

  const Stopwatch ping;
  SPACE_CO_CHECK(co_await session->ping(limit()));
  figures.ping.add(ping.ms());
  co_return Result<void>();
}

using Command = std::function<Task<Result<GuestOutput>>()>;

Task<void> repeat(Command command, Result<void>& failure, int& running, Event& finished) {
  for (int i = 0; i < commands_each && failure; ++i)
    if (const auto ended = ended_well(co_await command()); !ended) failure = ended;
  if (--running == 0) finished.notify_all();
}

// Each of `commands` runs several times, all of them side by side. Commands a second.
Task<Result<double>> rate_of(std::vector<Command> commands) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  Event finished(executor);
  Result<void> failure;
  int running = static_cast<int>(commands.size());
  const Stopwatch watch;
  for (const Command& command : commands)
    spawn(executor, "command", repeat(command, failure, running, finished));
  while (running > 0) co_await finished.wait();
  if (!failure) co_return std::unexpected(failure.error());
  co_return commands_each* static_cast<double>(commands.size()) * 1000 / watch.ms();
}

Task<Result<void>> measure_parallel(ApiSandbox sandbox, std::shared_ptr<H2Session> session,
                                    Figures& figures) {
  std::vector<std::unique_ptr<Api>> clients;
  std::vector<Command> through_api, direct;
  for (int i = 0; i < parallel; ++i) {
    SPACE_CO_TRY(auto client, co_await Api::connect(limit()));
    through_api.emplace_back(
        [api = client.get(), sandbox] { return api->exec(sandbox, {"/bin/true"}, limit()); });
    direct.emplace_back([session] { return run_in_guest(session, {"/bin/true"}, limit()); });
    clients.push_back(std::move(client));
  }
  for (int i = 0; i <= parallel_rounds; ++i) {
    SPACE_CO_TRY(const double api, co_await rate_of(through_api));
    SPACE_CO_TRY(const double channel, co_await rate_of(direct));
    if (i == 0) continue;  // warm-up
    figures.api_parallel.add(api);
    figures.channel_parallel.add(channel);
  }
  co_return Result<void>();
}

void report(const Figures& figures) {
  print("exec", "channel_ping", figures.ping);
  print("exec", "empty_control_call", figures.control_call, Peer{"channel_ping", figures.ping});
  print("exec", "channel_exec_true", figures.channel_exec);
  print("exec", "api_exec_true", figures.api_exec, Peer{"channel_exec_true", figures.channel_exec});
  print("exec", "platform_share_ms", figures.platform_share, {}, platform_share_goal_ms);
  print("exec", "channel_exec_50_parallel", figures.channel_parallel, {}, {}, "commands/s");
  print("exec", "api_exec_50_parallel", figures.api_parallel,
        Peer{"channel_exec_50_parallel", figures.channel_parallel, parallel_ratio_goal}, {}, "commands/s");
}

Task<Result<void>> measure(std::string template_folder, int rounds) {
  SPACE_CO_TRY(const auto vm, BareVm::prepare(template_folder, {}));
  SPACE_CO_CHECK(vm->start());
  SPACE_CO_TRY(const auto session, co_await vm->attach(limit()));
  SPACE_CO_TRY(const auto api, co_await Api::connect(limit()));
  SPACE_CO_TRY(const ApiSandbox sandbox, co_await api->create(limit()));
  Figures warm_up;
  for (int i = 0; i < warm_up_rounds; ++i) SPACE_CO_CHECK(co_await round(*api, sandbox, session, warm_up));
  Figures figures;
  for (int i = 0; i < rounds; ++i) SPACE_CO_CHECK(co_await round(*api, sandbox, session, figures));
  SPACE_CO_CHECK(co_await measure_parallel(sandbox, session, figures));
  report(figures);
  session->close("measured");
  co_return co_await api->kill(sandbox.id, limit());
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  return space::bench::bench_main(argc, argv, "exec", 300, space::bench::measure);
}
