// What the jail costs: a program that ends at once, started with every layer as a VMM is, and started bare.
// Both from a process of their own, as the supervisor is one; alternating. Root.
#include "priv/jail.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/ids.h"
#include "base/log.h"
#include "bench/report.h"
#include "priv/bundle.h"
#include "priv/process.h"

namespace space::bench {
namespace {

constexpr uid_t unprivileged_uid = 265534;
constexpr std::uint64_t mib = 1 << 20;

struct Ground {
  priv::Layout layout;
  priv::Cgroups cgroups;
  Fd bundle, program, empty;
};

Result<Ground> prepare(const std::string& folder) {
  priv::Layout layout{folder, folder};
  SPACE_TRY(auto cgroups, priv::Cgroups::find(layout.run));
  SPACE_TRY(const std::string bundle, priv::prepare_bundle(layout, "/bin/true"));
  Ground ground{layout, std::move(cgroups), {}, {}, {}};
  SPACE_TRY(ground.bundle, open_fd(bundle, O_PATH | O_DIRECTORY));
  SPACE_TRY(ground.program, open_fd(bundle + "/" + priv::bundle_program, O_PATH));
  SPACE_TRY(ground.empty, open_fd(bundle + "/" + priv::bundle_memory, O_RDONLY));
  return ground;
}

Result<void> await_success(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return fail_errno(errno, "wait");
  if (status != 0) return fail(Code::internal, "the program ended with status {}", status);
  return {};
}

Result<void> run_jailed(const Ground& ground, const std::string& id) {
  SPACE_CHECK(ground.cgroups.create(id, {.memory_bytes = 64 * mib, .pids = 8, .cpu_percent = 100}));
  SPACE_TRY(const auto root, priv::make_jail_root(ground.bundle, ground.empty, ground.empty, ground.empty));
  int talk[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) != 0)
    return fail_errno(errno, "socketpair");
  Fd mine(talk[0]), childs(talk[1]);
  SPACE_TRY(const pid_t child, priv::fork_into_jail());
  if (child == 0) {
    mine.reset();
    constexpr int program = 3;
    const Fd parent(::fcntl(childs.get(), F_DUPFD_CLOEXEC, 64));
    ::dup3(::fcntl(ground.program.get(), F_DUPFD_CLOEXEC, 64), program, O_CLOEXEC);
    const priv::JailSpec spec{.cgroups = &ground.cgroups,
                              .id = id,
                              .uid = unprivileged_uid,
                              .processes_max = 8,
                              .file_bytes_max = mib,
                              .root = &root,
                              .scratch = ground.layout.run,
                              .inherited_end = program,
                              .parent = parent.get()};
    const std::vector<std::string> words{"true"};
    (void)priv::enter_jail_and_exec(spec, {}, words);
    ::_exit(127);
  }
  childs.reset();
  SPACE_TRY(const auto worn, priv::oversee_jail(mine.get(), child, unprivileged_uid));
  if (worn.landlock_abi == 0) return fail(Code::internal, "Landlock is not on");
  return await_success(child);
}

Result<void> run_bare(const Ground& ground) {
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) {
    char name[] = "true";
    char* words[] = {name, nullptr};
    char* none[] = {nullptr};
    ::execveat(ground.program.get(), "", words, none, AT_EMPTY_PATH);
    ::_exit(127);
  }
  return await_success(child);
}

// In a process of its own, which tells how long it took.
Result<double> timed(const std::function<Result<void>()>& run) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  const Fd read(ends[0]);
  Fd write(ends[1]);
  const pid_t runner = ::fork();
  if (runner < 0) return fail_errno(errno, "fork");
  if (runner == 0) {
    const Stopwatch watch;
    const auto done = run();
    const double ms = watch.ms();
    if (!done) log::error("a run failed", {log::Field(done.error())});
    ::_exit(done && ::write(write.get(), &ms, sizeof ms) == sizeof ms ? 0 : 1);
  }
  write.reset();
  double ms = 0;
  const bool told = ::read(read.get(), &ms, sizeof ms) == sizeof ms;
  SPACE_CHECK(await_success(runner));
  if (!told) return fail(Code::internal, "a run told nothing");
  return ms;
}

Result<void> measure(const std::string& folder, int rounds) {
  SPACE_TRY(const Ground ground, prepare(folder));
  Samples jailed, bare;
  for (int i = 0; i < rounds; ++i) {
    const std::string id = new_sandbox_id();
    SPACE_TRY(const double with, timed([&] { return run_jailed(ground, id); }));
    SPACE_TRY(const double without, timed([&] { return run_bare(ground); }));
    SPACE_CHECK(ground.cgroups.remove(id));
    jailed.add(with - without);
    bare.add(without);
  }
  ground.cgroups.remove_instance();
  print_machine("jail");
  print("jail", "bare_start_to_end", bare);
  print("jail", "jail_set_up", jailed, {}, 10.0);
  return {};
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  space::log::init("jail_bench");
  char folder[] = "/tmp/space-jail-bench.XXXXXX";
  if (::mkdtemp(folder) == nullptr || ::chmod(folder, 0755) != 0) return 1;
  const auto done = space::bench::measure(folder, argc > 1 ? std::atoi(argv[1]) : 200);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!done) space::log::error("the benchmark failed", {space::log::Field(done.error())});
  return done ? 0 : 1;
}
