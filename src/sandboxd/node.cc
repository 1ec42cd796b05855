#include "sandboxd/node.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "core/capacity.h"
#include "sandboxd/control_link.h"
#include "sandboxd/host_memory.h"
#include "vmm/accelerator.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis reconcile_limit = 10s;
constexpr Millis reconcile_pause = 1s;

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(errno, "make folder " + path);
  return {};
}

Result<Fd> lock_folder(const std::string& folder) {
  SPACE_TRY(Fd lock, open_fd(folder + "/lock", O_RDWR | O_CREAT, 0600));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::conflict, "another sandbox manager uses {}", folder);
  return lock;
}

// Of the first processor, and more than enough of it.
std::string cpuinfo() {
  return read_file("/proc/cpuinfo", std::size_t{16} << 20).value_or("");
}

}  // namespace

Result<std::unique_ptr<Node>> Node::open(const Executor& executor, NodeOptions options) {
  const std::string state = options.state_folder + "/sandboxd";
  const std::string run = options.run_folder + "/sandboxd";
  for (const std::string& folder : {state, run, run + "/vm"}) SPACE_CHECK(make_folder(folder));
  SPACE_TRY(Fd lock, lock_folder(state));
  SPACE_TRY(Journal journal, Journal::open(state + "/journal.db"));
  SPACE_TRY(const std::uint32_t tsc_khz, vmm::host_tsc_khz());
  std::optional<DaemonProgram> daemon;
  if (!options.daemon_path.empty()) {
    SPACE_TRY(daemon, DaemonProgram::load(options.daemon_path, options.version));
  }
  if (options.memory_limit_mib == 0) options.memory_limit_mib = default_memory_limit_mib(host_memory_mib());
  return std::unique_ptr<Node>(
      new Node(executor, options, std::move(lock), std::move(journal), tsc_khz, std::move(daemon)));
}

Node::Node(const Executor& executor, const NodeOptions& options, Fd lock, Journal journal,
           std::uint64_t tsc_khz, std::optional<DaemonProgram> daemon)
    : options_(options),
      lock_(std::move(lock)),
      journal_(std::move(journal)),
      events_(executor),
      logs_(executor),
      noded_(executor, options.run_folder + "/noded/noded.sock", options.io_limits),
      netd_(executor, options.run_folder + "/netd/netd.sock"),
      daemon_(std::move(daemon)),
      host_{executor,
            noded_,
            netd_,
            options.run_folder + "/sandboxd/vm",
            tsc_khz,
            daemon_ ? &*daemon_ : nullptr,
            vmm::cpu_model(vmm::Accelerator::tcg, cpuinfo()),
            vmm::cpu_model(vmm::Accelerator::kvm, cpuinfo())},
      templates_(noded_),
      manager_(host_, journal_, events_, logs_, templates_,
               {.rare = std::chrono::seconds(options.sample_interval_s)},
               {options.memory_limit_mib, options.allow_tcg_multitenant, options.hot_keep_s,
                std::chrono::seconds(options.shutdown_limit_s), std::chrono::seconds(options.fork_keep_s),
                options.recovery},
               options.pool),
      accelerator_(host_, templates_, options.state_folder + "/sandboxd/accelerator.json",
                   options.accelerator),
      rpc_({journal_.node_id(), options.version, noded_, netd_, manager_, templates_, events_,
            accelerator_}) {}

Task<void> Node::run() {
  (void)::unlink((options_.run_folder + "/sandboxd/shutdown").c_str());
  while (true) {
    const auto done = co_await manager_.reconcile(Deadline::after(reconcile_limit));
    if (done) break;
    log::warn("reconcile failed, will be repeated", {log::Field(done.error())});
    co_await sleep_for(reconcile_pause);
  }
  spawn(host_.executor, "network gateway",
        netd_.run([this](const std::string& id) { return manager_.find(id) != nullptr; }));
  spawn(host_.executor, "slot watch", manager_.watch_slots(std::chrono::seconds(options_.slot_check_s)));
  spawn(host_.executor, "accelerator probe", probe_accelerator());
  co_await serve_control(options_.run_folder + "/control/node.sock", rpc_.handlers());
}

Task<void> Node::probe_accelerator() {
  const MachineAccelerator accelerator = co_await accelerator_.get();
  log::info("accelerator", {{"name", to_string(accelerator)}});
  co_await manager_.keep_pool(accelerator);
}

Task<void> Node::shut_down() {
  const std::string path = options_.run_folder + "/sandboxd/shutdown";
  co_await manager_.shut_down([&](std::size_t done, std::size_t all) {
    // For whoever waits for the end; without it there is no progress to see.
    (void)write_file_durably(path, fmt::format("{} {}\n", done, all), 0644);
  });
}

}  // namespace space
