#include "tests/integration/noded_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace space::noded {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto patience = 20s;

Fd connect_unix(const std::string& path, int type) {
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return Fd();
  const timeval limit{.tv_sec = std::chrono::seconds(patience).count()};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

Fd listen_unix(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
  return fd;
}

std::size_t entries_in(const fs::path& folder) {
  std::error_code ignored;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder, ignored), fs::directory_iterator()));
}

std::size_t lines_with(const std::string& file, const std::string& text) {
  std::ifstream lines(file);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(text) != std::string::npos;
  return count;
}

// Folders of the instance that serves `run`, over all mounted control group hierarchies.
std::size_t control_groups_of(std::string run) {
  std::size_t count = 0;
  std::ranges::replace(run, '/', '+');
  std::ifstream mounts("/proc/self/mounts");
  for (std::string device, point, type, rest;
       mounts >> device >> point >> type && std::getline(mounts, rest);) {
    if (type != "cgroup" && type != "cgroup2") continue;
    const fs::path instance = fs::path(point) / "space" / run.substr(1);
    std::error_code ignored;
    count += fs::exists(instance, ignored);
    for (const auto& entry : fs::directory_iterator(instance, ignored)) count += entry.is_directory(ignored);
  }
  return count;
}

std::size_t loops_over(const std::string& file) {
  std::size_t count = 0;
  for (const auto& device : fs::directory_iterator("/sys/block")) {
    std::ifstream backing(device.path() / "loop/backing_file");
    std::string path;
    count += std::getline(backing, path) && path == file;
  }
  return count;
}

}  // namespace

bool await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

bool ends(const Fd& pidfd) {
  pollfd ready{pidfd.get(), POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) == 1;
}

std::string text_of(const Fd& fd) {
  std::string text(1 << 20, '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

std::string halting_kernel() {
  std::string image(64 << 10, '\0');
  image[0x1f1] = 4;  // sectors of set-up code
  image.replace(0x1fe, 2, "\x55\xaa");
  image.replace(0x200, 5, "\xfa\xf4\xeb\xfd\x90");  // cli; hlt; back to hlt. Linux has a jump here
  image.replace(0x202, 4, "HdrS");
  image.replace(0x200, 2, "\xeb\x66");  // jump over the header to 0x268
  image.replace(0x268, 4, "\xfa\xf4\xeb\xfd");
  image[0x206] = 0x0c, image[0x207] = 0x02;     // protocol 2.12
  image[0x211] = 0x01;                          // loaded high
  image.replace(0x22c, 4, "\xff\xff\xff\x7f");  // highest address of an initramfs
  return image;
}

Client::Client(const std::string& socket) : fd_(connect_unix(socket, SOCK_SEQPACKET)) {}

Request Client::request(Verb verb, const std::string& sandbox, const std::string& digest,
                        const std::vector<std::uint64_t>& values) {
  Request request{.protocol = protocol, .verb = verb};
  sandbox.copy(request.sandbox, sizeof request.sandbox);
  digest.copy(request.digest, sizeof request.digest);
  std::ranges::copy(values, request.values);
  return request;
}

void Client::send(const Request& request, const std::vector<int>& fds) {
  iovec data{const_cast<Request*>(&request), sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{.msg_iov = &data, .msg_iovlen = 1};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
}

void Client::send_bytes(const std::string& bytes) {
  ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

Got Client::receive() {
  Reply reply{};
  iovec data{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr message{.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  const ssize_t size = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  if (size < 0 && errno == EAGAIN) return {.failed = Code::deadline, .message = "no answer"};
  if (size != sizeof reply) return {.failed = Code::unavailable, .message = "the connection ended"};
  Got got;
  if (reply.status != 0) got.failed = static_cast<Code>(reply.status - 1);
  got.message = reply.message;
  std::ranges::copy(reply.values, got.values.begin());
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
    for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= header->cmsg_len; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (i == 0)
        got.fd.reset(fd);
      else
        got.more.emplace_back(fd);
    }
  }
  return got;
}

Got Client::call(Verb verb, const std::string& sandbox, const std::string& digest,
                 std::vector<std::uint64_t> values, std::vector<int> fds) {
  return exchange(request(verb, sandbox, digest, values), fds);
}

Got Client::restore(const std::string& sandbox, const std::string& source, std::uint64_t number) {
  Request message = request(Verb::disk_restore, sandbox, "", {number});
  source.copy(message.source, sizeof message.source);
  return exchange(message, {});
}

Got Client::exchange(Request message, const std::vector<int>& fds) {
  message.sequence = ++sequence_;
  const auto start = std::chrono::steady_clock::now();
  send(message, fds);
  Got got = receive();
  times_[message.verb].push_back(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  return got;
}

std::map<Verb, std::vector<double>> Client::times_;

void Client::print_times() {
  for (auto& [verb, times] : times_) {
    std::ranges::sort(times);
    std::printf("# verb %2u: n %4zu, p50 %6.2f ms, p99 %6.2f ms\n", static_cast<unsigned>(verb), times.size(),
                times[times.size() / 2], times[times.size() * 99 / 100]);
  }
}

Listeners::Listeners(const std::string& folder, const std::string& id)
    : qmp_path(folder + "/" + id + ".q"),
      qmp(listen_unix(qmp_path)),
      channel(listen_unix(folder + "/" + id + ".c")) {}

Fd Listeners::connect_qmp() const {
  return connect_unix(qmp_path, SOCK_STREAM);
}

std::string Listeners::command(const std::string& word) const {
  const Fd connection = connect_qmp();
  (void)!::write(connection.get(), word.data(), word.size());
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(connection.get(), buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  return answer;
}

NodedTest::NodedTest() {
  // Whatever a killed space-noded leaves comes to this process, so that nothing can hide.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  char name[] = "/tmp/space-noded-XXXXXX";
  root_ = ::mkdtemp(name);
  state_ = root_ + "/state";
  run_ = root_ + "/run";
  fs::create_directories(state_ + "/images");
  fs::create_directories(run_);
}

NodedTest::~NodedTest() {
  if (noded_ > 0) {
    for (const ListRecord& record : list())
      if (record.kind == Kind::vmm) client().call(Verb::vmm_kill, record.id), await_exit(record.id);
    EXPECT_EQ(stop_noded(SIGTERM), 0);
  }
  EXPECT_EQ(run_noded({"--unmount-pool"}), 0);
  EXPECT_TRUE(await([] {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return ::waitpid(-1, nullptr, WNOHANG) < 0;  // no child of any kind is left
  }));
  EXPECT_EQ(lines_with("/proc/self/mountinfo", root_), 0U);
  EXPECT_EQ(loops_over(state_ + "/pool.img"), 0U);
  EXPECT_EQ(control_groups_of(run_), 0U);
  fs::remove_all(root_);
}

std::string NodedTest::path_of(const char* beside_the_test) const {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / beside_the_test;
}

pid_t NodedTest::spawn_noded(const std::vector<std::string>& more) const {
  std::vector<std::string> words{path_of("space-noded"), "--state", state_,          "--run", run_,
                                 "--pool-mib",           "2048",    "--vmm-program", program_};
  words.insert(words.end(), more.begin(), more.end());
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

void NodedTest::start_noded(const std::vector<std::string>& more) {
  noded_ = spawn_noded(more);
  ASSERT_TRUE(await([&] { return client().connected(); }));
}

int NodedTest::stop_noded(int signal) {
  ::kill(noded_, signal);
  int status = -1;
  ::waitpid(noded_, &status, 0);
  noded_ = 0;
  return status;
}

int NodedTest::run_noded(const std::vector<std::string>& arguments) const {
  const pid_t pid = spawn_noded(arguments);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

std::string NodedTest::make_image(const std::string& kernel) {
  const std::string digest = to_hex(random_bytes(32));
  const fs::path folder = fs::path(state_) / "images" / digest;
  fs::create_directories(folder);
  std::ofstream(folder / "manifest.json") << "{\"name\":\"" << digest << "\"}";
  std::ofstream(folder / "vmlinuz") << kernel;
  std::ofstream(folder / "initramfs.img") << "initramfs";
  std::ofstream(folder / "disk.raw") << "disk";
  fs::resize_file(folder / "disk.raw", 64 << 20);
  return digest;
}

Got NodedTest::import(const std::string& digest) {
  Got got = client().call(Verb::template_import, "", digest);
  char outcome = -1;
  if (got.done() && ::read(got.fd.get(), &outcome, 1) != 1) got.message = "cut off";
  got.values[0] = static_cast<std::uint64_t>(outcome);
  return got;
}

std::string NodedTest::make_sandbox(const std::string& digest) {
  const std::string id = new_sandbox_id();
  const Got disk = client().call(Verb::disk_create, id, digest, {512});
  EXPECT_TRUE(disk.done()) << disk.message;
  const Got slot = client().call(Verb::slot_create, id);
  EXPECT_TRUE(slot.done()) << slot.message;
  return id;
}

Got NodedTest::launch(const std::string& id, const Listeners& listeners, bool restored) {
  return client().call(Verb::vmm_launch, id, "", {1, 128, 0, 2'600'000, 0, 0, restored ? 1U : 0U},
                       {listeners.qmp.get(), listeners.channel.get()});
}

Got NodedTest::launch_started(const std::string& id, const Listeners& listeners, bool restored) {
  Got launched = launch(id, listeners, restored);
  if (launched.done()) {
    EXPECT_TRUE(await([&] { return log_of(id) == "started\n"; })) << log_of(id);
  }
  return launched;
}

std::string NodedTest::log_of(const std::string& id) const {
  std::stringstream text;
  text << std::ifstream(run_ + "/noded/vm/" + id + "/log").rdbuf();
  return text.str();
}

std::vector<ListRecord> NodedTest::list() {
  const Got got = client().call(Verb::list);
  EXPECT_TRUE(got.done()) << got.message;
  const std::string bytes = text_of(got.fd);
  std::vector<ListRecord> records(bytes.size() / sizeof(ListRecord));
  if (!records.empty()) std::memcpy(records.data(), bytes.data(), records.size() * sizeof(ListRecord));
  return records;
}

bool NodedTest::lists(Kind kind, const std::string& id) {
  return std::ranges::any_of(
      list(), [&](const ListRecord& record) { return record.kind == kind && record.id == id; });
}

Got NodedTest::await_exit(const std::string& id) {
  Got got;
  await([&] {
    got = client().call(Verb::vmm_exit, id);
    return got.done();
  });
  return got;
}

void NodedTest::forget_all(const std::string& id) {
  for (const Verb verb : {Verb::vmm_forget, Verb::slot_remove, Verb::disk_remove}) {
    const Got got = client().call(verb, id);
    EXPECT_TRUE(got.done()) << got.message;
  }
}

std::string NodedTest::leak_table() const {
  // Control groups hold every process an instance starts for longer than a call.
  std::size_t processes = 0, of_sandboxes = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    struct stat status{};
    if (::stat(entry.path().c_str(), &status) != 0) continue;
    if (lines_with(entry.path() / "cgroup", root_.substr(5)) == 0) continue;
    ++processes;
    of_sandboxes += status.st_uid >= vm_uid_first && status.st_uid <= vm_uid_last;
  }
  // Those made ahead are listed apart: always as many, once nothing moves. One that has its name but not yet
  // its namespace is still in the making.
  std::size_t spares = 0;
  for (const auto& slot : fs::directory_iterator(run_ + "/noded/netns"))
    spares += slot.path().filename().string().starts_with('.');
  const std::size_t ready = lines_with("/proc/self/mountinfo", run_ + "/noded/netns/.");
  std::stringstream table;
  table << "processes " << processes << ", under sandbox uids " << of_sandboxes << ", slots "
        << entries_in(run_ + "/noded/netns") - spares << ", spare " << ready << ", fds of noded "
        << entries_in("/proc/" + std::to_string(noded_) + "/fd") << ", disks "
        << entries_in(state_ + "/pool/sandboxes") << ", snapshots " << entries_in(state_ + "/pool/snapshots")
        << ", loops " << loops_over(state_ + "/pool.img") << ", mounts "
        << lines_with("/proc/self/mountinfo", root_) << ", groups " << control_groups_of(run_) << ", records "
        << entries_in(run_ + "/noded/vm");
  return table.str();
}

}  // namespace space::noded
