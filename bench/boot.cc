// Cold create through the API to the end of the first command, next to a bare QEMU that boots the same kernel
// and disk to the daemon's first byte on the channel. Alternating, so that both see the same machine.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>

#include "bench/api.h"
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

int run(const char* template_folder, int rounds) {
  print_machine("boot");
  boost::asio::io_context loop;
  Result<void> result;
  spawn(loop.get_executor(), "bench", [](std::string folder, int count, Result<void>& out) -> Task<void> {
    out = co_await measure(std::move(folder), count);
  }(template_folder, rounds, result));
  loop.run();
  if (!result) std::fprintf(stderr, "boot: %s\n", result.error().message.c_str());
  return result ? 0 : 1;
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: boot_bench TEMPLATE_FOLDER [ROUNDS]\n", stderr);
    return 2;
  }
  return space::bench::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 10);
}
