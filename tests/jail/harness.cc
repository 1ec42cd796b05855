#include "tests/jail/harness.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "priv/bundle.h"

namespace space::jail {
namespace {

namespace fs = std::filesystem;

constexpr int cells_count = 3;
constexpr uid_t first_uid = noded::vm_uid_last - cells_count + 1;
constexpr std::uint64_t mib = 1 << 20, memory_mib = 48, threads = 24, file_mib = 64;
constexpr int safe_number = 64, leaked_number = 200;
constexpr int smallest_status = 77;  // of the program that the probe tries to run
constexpr unsigned patience_seconds = 20;
constexpr const char* group_folder = "probe";

volatile pid_t watched = 0;  // by a watcher, which watches one

bool has(const std::vector<priv::JailLayer>& layers, std::string_view name) {
  return std::ranges::any_of(layers, [&](const priv::JailLayer& layer) { return layer.name == name; });
}

void must(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  ::_exit(90);
}

Fd new_file(const std::string& path, std::uint64_t size, unsigned mode) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  must(fd && ::ftruncate(fd.get(), static_cast<off_t>(size)) == 0 && ::fchmod(fd.get(), mode) == 0,
       path.c_str());
  return fd;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string read_to_end(const Fd& fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

// A mount namespace of its own: whatever a jail with a missing layer mounts or moves stays in here.
void leave_mounts_of_host() {
  must(::unshare(CLONE_NEWNS) == 0, "unshare");
  must(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
}

}  // namespace

struct Harness::Place {
  const std::vector<priv::JailLayer>* layers = nullptr;  // nullptr: outside
  uid_t uid = 0;                                         // outside only
};

// Of what a probe has at a time, so that several can be under way.
struct Harness::Cell {
  std::string id, open_folder;
  uid_t uid;
  Fd disk, qmp;
  pid_t bystander = -1;  // a process of the same uid, outside
};

struct Harness::Attempt {
  Cell* cell;
  pid_t watcher;
  Fd output;
};

Harness::Harness(noded::Accelerator accelerator) : accelerator_(accelerator) {
  char name[] = "/tmp/space-jail-XXXXXX";
  root_ = ::mkdtemp(name);
  ::chmod(root_.c_str(), 0755);
  layout_ = {root_ + "/state", root_ + "/run"};
  fs::create_directories(layout_.state);
  fs::create_directories(layout_.run);
  program_ = fs::read_symlink("/proc/self/exe").parent_path() / "jail_probe";
  auto bundle = priv::prepare_bundle(layout_, program_);
  EXPECT_TRUE(bundle) << bundle.error().message;
  bundle_ = bundle ? layout_.bundle(*bundle) : "";
  auto groups = priv::Cgroups::find(layout_.run);
  EXPECT_TRUE(groups) << groups.error().message;
  if (groups) cgroups_ = std::make_unique<priv::Cgroups>(std::move(*groups));
  make_files();
  FILE* list = ::popen((program_ + " --list").c_str(), "r");
  char line[128];
  while (std::fgets(line, sizeof line, list) != nullptr)
    rows_.emplace_back(line + 4, std::strcspn(line + 4, "\n"));
  ::pclose(list);
}

Harness::~Harness() {
  for (const auto& cell : cells_) {
    ::kill(cell->bystander, SIGKILL);
    ::waitpid(cell->bystander, nullptr, 0);
    EXPECT_TRUE(cgroups_->remove(cell->id));
  }
  cgroups_->remove_instance();
  fs::remove_all(root_);
}

void Harness::make_files() {
  for (const char* file : {"/memory", "/kernel", "/initramfs", "/secret"}) new_file(root_ + file, 4096, 0444);
  EXPECT_EQ(::unshare(CLONE_NEWNET), 0);  // its tap is nothing that the host should see
  tap_.reset(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "tap0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  EXPECT_EQ(::ioctl(tap_.get(), TUNSETIFF, &request), 0) << "this suite needs a tap";
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  request.ifr_flags = IFF_UP;
  EXPECT_EQ(::ioctl(any.get(), SIOCSIFFLAGS, &request), 0);
  for (int i = 0; i < cells_count; ++i) {
    auto cell = std::make_unique<Cell>();
    const std::string folder = fmt::format("{}/{}", root_, i);
    fs::create_directory(folder);
    cell->open_folder = folder + "/open";
    cell->id = fmt::format("{}{}", group_folder, i);
    cell->uid = first_uid + static_cast<uid_t>(i);
    cell->disk = new_file(folder + "/disk.raw", mib, 0600);
    must(::fchown(cell->disk.get(), cell->uid, cell->uid) == 0, "give away the disk");
    cell->qmp.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un anywhere{.sun_family = AF_UNIX};  // an abstract name of the kernel's choice
    must(::bind(cell->qmp.get(), reinterpret_cast<const sockaddr*>(&anywhere), sizeof(sa_family_t)) == 0 &&
             ::listen(cell->qmp.get(), 1) == 0,
         "listen");
    cell->bystander = ::fork();
    if (cell->bystander == 0) {
      must(::setresgid(cell->uid, cell->uid, cell->uid) == 0 &&
               ::setresuid(cell->uid, cell->uid, cell->uid) == 0,
           "become the bystander");
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of uid would have cleared it
      ::prctl(PR_SET_DUMPABLE, 1);
      for (;;) ::pause();
    }
    cells_.push_back(std::move(cell));
  }
}

// What the jail's root looks like, without what makes it safe: everybody may change everything.
void Harness::make_open_folder(const Cell& cell) {
  const std::string& open_folder = cell.open_folder;
  fs::remove_all(open_folder);
  fs::create_directories(open_folder + "/usr/share/seabios");
  for (const char* file :
       {"/memory", "/kernel", "/initramfs", "/landlock-canary", "/usr/share/seabios/bios-microvm.bin"})
    new_file(open_folder + file, 4096, 0777);
  fs::copy_file(program_, open_folder + "/vmm");
  for (const char* folder : {"/proc", "/sys", "/dev", "/etc", "/run", "/tmp", "/bin", "/lib", "/lib64"})
    fs::create_directory(open_folder + folder);
  for (const char* file : {"/etc/passwd", "/etc/shadow"}) new_file(open_folder + file, 0, 0644);
  for (const auto& entry : fs::recursive_directory_iterator(open_folder)) ::chmod(entry.path().c_str(), 0777);
  ::chmod(open_folder.c_str(), 0777);
}

Outcomes Harness::in_jail(const std::vector<priv::JailLayer>& layers) {
  // From the exec on it is the program's file that keeps it from being dumped: nobody can read it.
  const std::string program = bundle_ + "/" + priv::bundle_program;
  const bool dumpable = !has(layers, "not dumpable");
  if (dumpable) ::chmod(program.c_str(), 0555);
  Outcomes outcomes = each_row({.layers = &layers});
  ::chmod(program.c_str(), 0111);
  return outcomes;
}

Outcomes Harness::outside_as(uid_t uid) {
  return each_row({.uid = uid});
}

Outcomes Harness::each_row(const Place& place) {
  Outcomes outcomes;
  std::deque<std::pair<Attempt, std::string>> under_way;
  std::deque<Cell*> idle;
  for (const auto& cell : cells_) idle.push_back(cell.get());
  const auto finish_oldest = [&] {
    auto& [attempt, row] = under_way.front();
    outcomes[row] = finish(attempt, row);
    idle.push_back(attempt.cell);
    under_way.pop_front();
  };
  for (const std::string& row : rows_) {
    if (idle.empty()) finish_oldest();
    Cell& cell = *idle.front();
    idle.pop_front();
    if (place.layers == nullptr) make_open_folder(cell);
    under_way.emplace_back(start(place, cell, {row}), row);
  }
  while (!under_way.empty()) finish_oldest();
  return outcomes;
}

Harness::Attempt Harness::start(const Place& place, Cell& cell, const std::vector<std::string>& words) {
  // Anew for each, so that what is counted in it was this one's.
  auto made = cgroups_->remove(cell.id);
  if (made)
    made = cgroups_->create(cell.id, {.memory_bytes = memory_mib * mib, .pids = threads, .cpu_percent = 200});
  EXPECT_TRUE(made) << made.error().message;
  must(::ftruncate(cell.disk.get(), 0) == 0 && ::ftruncate(cell.disk.get(), mib) == 0 &&
           ::fchmod(cell.disk.get(), 0600) == 0 && ::fcntl(cell.qmp.get(), F_SETFL, 0) == 0,
       "make the cell as new");
  int ends[2];
  must(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  Fd output(ends[1]);
  const pid_t watcher = ::fork();
  if (watcher == 0) watch_over(place, cell, words, output.get());
  return {&cell, watcher, Fd(ends[0])};
}

std::string Harness::finish(Attempt& attempt, const std::string& row) {
  const std::string text = read_to_end(attempt.output);
  int status = 0;
  ::waitpid(attempt.watcher, &status, 0);
  std::string found, end;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(row + " ")) found = line.substr(row.size() + 1);
    if (line.starts_with("end ")) end = line.substr(4);
    if (line == "reborn ok") found = "ran itself";
    if (line.starts_with("refused ")) {
      refusal_ = line.substr(8);
      return refused_to_start;
    }
  }
  if (end == "SIGKILL" && cgroups_->out_of_memory(attempt.cell->id)) return "OOM";
  if (end == std::to_string(smallest_status)) return "ran";
  if (end == "0" && !found.empty()) return found;
  return end.starts_with("SIG") ? end : "unclear: " + text;
}

// Between this process and the probe, as the supervisor is between noded and QEMU.
void Harness::watch_over(const Place& place, Cell& cell, std::vector<std::string> words, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  ::signal(SIGXFSZ, SIG_DFL);
  int talk[2];
  must(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) == 0, "socketpair");
  const bool jailed = place.layers != nullptr;
  const auto pid = priv::fork_into_jail(jailed && has(*place.layers, "namespaces"));
  must(pid.has_value(), "fork");
  if (*pid == 0) become_probe(place, cell, std::move(words), output, talk[1]);
  ::close(talk[1]);
  // A row that waits for ever comes out as SIGKILL.
  watched = *pid;
  ::signal(SIGALRM, [](int) { ::kill(watched, SIGKILL); });
  ::alarm(patience_seconds);
  std::string last;
  if (place.layers == nullptr)
    ::close(talk[0]);
  else if (const auto worn = priv::oversee_jail(talk[0], *pid, cell.uid); !worn)
    last = fmt::format("refused {}\n", worn.error().message);
  else if (words.front() == "--hold")
    last = fmt::format("pid {} {}\n", *pid, priv::to_text(*worn));
  (void)!::write(output, last.data(), last.size());
  int status = 0;
  ::waitpid(*pid, &status, 0);
  last = WIFSIGNALED(status) ? fmt::format("end SIG{}\n", ::sigabbrev_np(WTERMSIG(status)))
                             : fmt::format("end {}\n", WEXITSTATUS(status));
  (void)!::write(output, last.data(), last.size());
  ::_exit(0);
}

// The order of the command line of a VMM: standard streams, sockets, tap, disk, accelerator. The next number
// is the program's. Returns that.
int Harness::place_descriptors(Cell& cell, int output) {
  std::vector<Fd> lifted;
  const Fd secret(::open((root_ + "/secret").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd program(::open((bundle_ + "/" + priv::bundle_program).c_str(), O_PATH | O_CLOEXEC));
  const Fd kvm(accelerator_ == noded::Accelerator::kvm ? ::open("/dev/kvm", O_RDWR | O_CLOEXEC) : -1);
  for (const int fd : {null.get(), output, output, cell.qmp.get(), cell.qmp.get(), tap_.get(),
                       cell.disk.get(), kvm.get(), program.get()})
    if (fd >= 0) lifted.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, safe_number));
  for (std::size_t number = 0; number < lifted.size(); ++number)
    must(::dup2(lifted[number].get(), static_cast<int>(number)) >= 0, "place a descriptor");
  const int end = static_cast<int>(lifted.size()) - 1;
  must(::fcntl(end, F_SETFD, FD_CLOEXEC) == 0, "mark the program");
  must(::dup2(secret.get(), leaked_number) >= 0, "leak a descriptor");
  return end;
}

void Harness::become_probe(const Place& place, Cell& cell, std::vector<std::string> words, int output,
                           int parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The descriptors first, as a VMM's are opened by root while it still sees the host.
  parent = ::fcntl(parent, F_DUPFD_CLOEXEC, safe_number);
  const int end = place_descriptors(cell, output);
  leave_mounts_of_host();
  priv::JailRoot tree;
  if (place.layers != nullptr) {
    // Opened here, because only mounts of one's own mount namespace can be copied.
    const auto open_path = [](const std::string& path) {
      return Fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    };
    auto made = priv::make_jail_root(open_path(bundle_), open_path(root_ + "/memory"),
                                     open_path(root_ + "/kernel"), open_path(root_ + "/initramfs"));
    must(made.has_value(), "make the root");
    tree = std::move(*made);
    for (Fd* fd : {&tree.bundle, &tree.memory, &tree.kernel, &tree.initramfs})
      fd->reset(::fcntl(fd->get(), F_DUPFD_CLOEXEC, safe_number));
  }
  words.insert(words.begin(), {"probe", "qmp=3", "tap=5", "disk=6", fmt::format("kvm={}", end == 8 ? 7 : -1),
                               fmt::format("program={}", end), fmt::format("end={}", end),
                               fmt::format("leaked={}", leaked_number),
                               fmt::format("outside={}", cell.bystander), fmt::format("uid={}", cell.uid),
                               fmt::format("memory_mib={}", memory_mib), fmt::format("threads={}", threads)});
  if (place.layers != nullptr) {
    const priv::JailSpec spec{.cgroups = cgroups_.get(),
                              .id = cell.id,
                              .uid = cell.uid,
                              .processes_max = 10 * threads,  // above the group's, which must be what counts
                              .file_bytes_max = file_mib * mib,
                              .root = &tree,
                              .scratch = root_,
                              .inherited_end = end,
                              .parent = parent};
    (void)priv::enter_jail_and_exec(spec, {}, words, *place.layers);
    ::_exit(91);
  }
  for (const char* folder : {"/proc", "/sys", "/dev"})
    must(::mount(folder, (cell.open_folder + folder).c_str(), nullptr, MS_BIND, nullptr) == 0, "mount");
  must(::chroot(cell.open_folder.c_str()) == 0 && ::chdir("/") == 0, "chroot");
  if (place.uid != 0)
    must(::setgroups(0, nullptr) == 0 && ::setresgid(cell.uid, cell.uid, cell.uid) == 0 &&
             ::setresuid(cell.uid, cell.uid, cell.uid) == 0,
         "become a plain user");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv("/vmm", arguments.data());
  ::_exit(92);
}

std::vector<priv::LayerReading> Harness::report(const std::vector<priv::JailLayer>& layers) {
  Cell& cell = *cells_.front();
  const std::string program = bundle_ + "/" + priv::bundle_program;
  if (!has(layers, "not dumpable")) ::chmod(program.c_str(), 0555);
  Attempt attempt = start({.layers = &layers}, cell, {"--hold"});
  std::string text;
  char letter = 0;
  const auto line_after = [&](std::string_view start) -> std::string {
    for (const std::string& line : lines_of(text))
      if (line.starts_with(start)) return line.substr(start.size());
    return {};
  };
  // Both its watcher and the probe itself say that it has come through.
  while (::read(attempt.output.get(), &letter, 1) == 1) {
    text += letter;
    if (letter == '\n' && !line_after("held ").empty() && !line_after("pid ").empty()) break;
  }
  std::vector<priv::LayerReading> readings;
  std::istringstream stream(line_after("pid "));
  pid_t pid = 0;
  std::string worn_text;
  if (stream >> pid && std::getline(stream >> std::ws, worn_text)) {
    const auto worn = priv::parse_worn(worn_text);
    EXPECT_TRUE(worn) << worn_text;
    if (worn) readings = priv::read_isolation({pid, cell.id, cell.uid, cgroups_.get(), *worn});
    ::kill(pid, SIGKILL);
  }
  read_to_end(attempt.output);
  ::waitpid(attempt.watcher, nullptr, 0);
  ::chmod(program.c_str(), 0111);
  return readings;
}

}  // namespace space::jail
