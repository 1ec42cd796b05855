// Cold create through the API to the end of the first command, next to a bare QEMU that boots the same kernel
// and disk to the daemon's first byte on the channel. Alternating, so that both see the same machine.

#include "bench/api.h"
#include "bench/bench_main.h"
#include "bench/report.h"
#include "tests/integration/bare_vm.h"

namespace space::bench {
namespace {

Deadline limit() {
  return Deadline::after(std::chrono::seconds(120));
}

struct Figures {
  Samples create, first_command, bare_boot;
};

Task<Result<void>> through_api(Api& api, Figures& figures) {
  const Stopwatch watch;
  SPACE_CO_TRY(const ApiSandbox sandbox, co_await api.create(limit()));
  const double created = watch.ms();
  SPACE_CO_TRY(const GuestOutput output, co_await api.exec(sandbox, {"/bin/true"}, limit()));
  figures.create.add(created);
  figures.first_command.add(watch.ms());
  SPACE_CO_CHECK(co_await api.kill(sandbox.id, limit()));
  if (output.exit_code != 0) co_return fail(Code::internal, "/bin/true ended with {}", output.exit_code);
  co_return Result<void>();
}

Task<Result<void>> bare(std::string template_folder, Figures& figures) {
  SPACE_CO_TRY(const auto vm, BareVm::prepare(template_folder, {}));
  const Stopwatch watch;
  SPACE_CO_CHECK(vm->start());
  SPACE_CO_TRY(const auto session, co_await vm->attach(limit()));
  figures.bare_boot.add(watch.ms());
  session->close("measured");
  co_return Result<void>();
}

Task<Result<void>> measure(std::string template_folder, int rounds) {
  SPACE_CO_TRY(const auto api, co_await Api::connect(limit()));
  Figures figures;
  for (int i = 0; i < rounds; ++i) {
    SPACE_CO_CHECK(co_await through_api(*api, figures));
    SPACE_CO_CHECK(co_await bare(template_folder, figures));
  }
  const Peer peer{"bare_boot_to_first_byte", figures.bare_boot};
  print("boot", "bare_boot_to_first_byte", figures.bare_boot);
  print("boot", "cold_create", figures.create, peer);
  print("boot", "cold_create_to_first_command", figures.first_command, peer);
  co_return Result<void>();
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  return space::bench::bench_main(argc, argv, "boot", 10, space::bench::measure);
}
