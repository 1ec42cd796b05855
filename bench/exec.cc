// What the platform adds to a command: exec of /bin/true over the API, next to the same exec issued on the
// bare channel of a VM of the same template; and the channel's own floor, an empty control call next to an
// HTTP/2 PING. The four alternate, so that all see the same machine.

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

struct Figures {
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

void report(const Figures& figures) {
  print("exec", "channel_ping", figures.ping);
  print("exec", "empty_control_call", figures.control_call, Peer{"channel_ping", figures.ping});
  print("exec", "channel_exec_true", figures.channel_exec);
  print("exec", "api_exec_true", figures.api_exec, Peer{"channel_exec_true", figures.channel_exec});
  print("exec", "platform_share_ms", figures.platform_share, {}, platform_share_goal_ms);
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
  report(figures);
  session->close("measured");
  co_return co_await api->kill(sandbox.id, limit());
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  return space::bench::bench_main(argc, argv, "exec", 300, space::bench::measure);
}
