// Bytes up and down: 256 MiB through the API, next to the same request sent straight into the channel of a
// bare VM of the same template. Beside it what the daemons hold of memory meanwhile, and what the guest's
// daemon costs while nothing happens.

#include <dirent.h>

#include <fstream>

#include "base/bytes.h"
#include "bench/api.h"
#include "bench/bench_main.h"
#include "bench/report.h"
#include "guest/cgroup.h"
#include "tests/integration/bare_vm.h"

namespace space::bench {
namespace {

constexpr std::uint64_t total_bytes = std::uint64_t{256} * 1024 * 1024;
constexpr std::size_t piece_bytes = 256 * 1024;
constexpr double ratio_goal = 0.7;
constexpr int idle_windows = 3;
constexpr Millis idle_window{20'000};
constexpr double idle_goal_percent = 0.1;
constexpr const char* daemons[] = {"space-control", "space-sandboxd", "space-noded"};

Deadline limit() {
  return Deadline::after(std::chrono::seconds(600));
}

struct Figures {
  Samples api_upload, channel_upload, api_download, channel_download;  // MiB/s
  Samples resident[std::size(daemons)], guest_resident;                // MiB, after each transfer
  Samples idle;                                                        // percent of a processor
};

// Answers a connection on which one request for the daemon of a VM may be made, and what it must carry.
struct Target {
  http::ClientConnection& connection;
  std::optional<ApiSandbox> sandbox;  // nullopt: the channel itself
};

http::RequestHead head_of(const Target& target, std::string method, std::string_view path) {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = fmt::format("/files?username=root&path={}", path);
  head.fields.add("Host", "localhost");
  head.fields.add("Content-Type", "application/octet-stream");
  if (target.sandbox) address(head, *target.sandbox);
  return head;
}

Task<Result<std::uint64_t>> answer_of(http::ClientConnection& connection, std::string* text) {
  SPACE_CO_TRY(const auto response, co_await connection.read_response(limit()));
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(piece_bytes);
  std::uint64_t bytes = 0;
  for (;;) {
    SPACE_CO_TRY(const std::size_t n, co_await connection.body().read({piece.get(), piece_bytes}));
    if (n == 0) break;
    bytes += n;
    if (text != nullptr) text->append(as_text(std::span(piece.get(), n)));
  }
  if (response.head.status != 200) co_return fail(Code::internal, "HTTP {}", response.head.status);
  co_return bytes;
}

double rate(const Stopwatch& watch) {
  return static_cast<double>(total_bytes) / (1024 * 1024) / watch.ms() * 1000;
}

Task<Result<double>> upload(Target target) {
  const std::vector<std::byte> piece(piece_bytes, std::byte{'x'});
  http::RequestHead head = head_of(target, "POST", "/tmp/big");
  head.content_length = total_bytes;
  const Stopwatch watch;
  SPACE_CO_CHECK(co_await target.connection.write_request(head));
  for (std::uint64_t sent = 0; sent < total_bytes; sent += piece.size())
    SPACE_CO_CHECK(co_await target.connection.write_body(piece));
  SPACE_CO_CHECK(co_await target.connection.end_request());
  SPACE_CO_CHECK(co_await answer_of(target.connection, nullptr));
  co_return rate(watch);
}

Task<Result<double>> download(Target target) {
  const Stopwatch watch;
  SPACE_CO_CHECK(co_await target.connection.write_request(head_of(target, "GET", "/tmp/big")));
  SPACE_CO_CHECK(co_await target.connection.end_request());
  SPACE_CO_TRY(const std::uint64_t bytes, co_await answer_of(target.connection, nullptr));
  if (bytes != total_bytes) co_return fail(Code::internal, "{} bytes came back", bytes);
  co_return rate(watch);
}

Task<Result<std::string>> read_in_guest(Target target, std::string_view path) {
  std::string text;
  SPACE_CO_CHECK(co_await target.connection.write_request(head_of(target, "GET", path)));
  SPACE_CO_CHECK(co_await target.connection.end_request());
  SPACE_CO_CHECK(co_await answer_of(target.connection, &text));
  co_return text;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double resident_mib(std::string_view status) {
  return static_cast<double>(guest::keyed_number(status, "VmRSS").value_or(0)) / 1024;
}

// Of this instance's daemon of that name: its command line holds the instance's run folder.
double resident_mib_of(std::string_view daemon) {
  const char* run = std::getenv("SPACE_RUN");
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (const dirent* entry = folder && run != nullptr ? ::readdir(folder.get()) : nullptr) {
    const std::string process = fmt::format("/proc/{}", entry->d_name);
    if (text_of(process + "/comm") == fmt::format("{}\n", daemon) &&
        text_of(process + "/cmdline").find(run) != std::string::npos)
      return resident_mib(text_of(process + "/status"));
  }
  return 0;
}

Task<Result<void>> look_at_memory(Target target, Figures& figures) {
  for (std::size_t i = 0; i < std::size(daemons); ++i) figures.resident[i].add(resident_mib_of(daemons[i]));
  SPACE_CO_TRY(const std::string status, co_await read_in_guest(target, "/proc/1/status"));
  figures.guest_resident.add(resident_mib(status));
  co_return Result<void>();
}

Task<Result<void>> round(Target api, std::shared_ptr<H2Session> session, Figures& figures) {
  SPACE_CO_TRY(StreamPtr up, co_await session->connect("localhost:49983", limit()));
  http::ClientConnection channel(std::move(up));
  SPACE_CO_TRY(const double api_up, co_await upload(api));
  SPACE_CO_CHECK(co_await look_at_memory(api, figures));
  SPACE_CO_TRY(const double channel_up, co_await upload({channel, {}}));
  SPACE_CO_TRY(const double api_down, co_await download(api));
  SPACE_CO_CHECK(co_await look_at_memory(api, figures));
  SPACE_CO_TRY(const double channel_down, co_await download({channel, {}}));
  figures.api_upload.add(api_up);
  figures.channel_upload.add(channel_up);
  figures.api_download.add(api_down);
  figures.channel_download.add(channel_down);
  co_return Result<void>();
}

Task<Result<std::uint64_t>> daemon_cpu_us(Target target) {
  SPACE_CO_TRY(const std::string text, co_await read_in_guest(target, "/sys/fs/cgroup/daemon/cpu.stat"));
  const auto value = guest::keyed_number(text, "usage_usec");
  if (!value) co_return fail(Code::internal, "the guest counts no processor time");
  co_return *value;
}

// Both looks are requests to the daemon, and count too.
Task<Result<void>> measure_idle(Target target, Figures& figures) {
  for (int i = 0; i < idle_windows; ++i) {
    const Stopwatch watch;
    SPACE_CO_TRY(const std::uint64_t before, co_await daemon_cpu_us(target));
    co_await sleep_for(idle_window);
    SPACE_CO_TRY(const std::uint64_t after, co_await daemon_cpu_us(target));
    figures.idle.add(static_cast<double>(after - before) / 1000 / watch.ms() * 100);
  }
  co_return Result<void>();
}

void report(const Figures& figures) {
  print("files", "channel_upload", figures.channel_upload, {}, {}, "MiB/s");
  print("files", "api_upload", figures.api_upload, Peer{"channel_upload", figures.channel_upload, ratio_goal},
        {}, "MiB/s");
  print("files", "channel_download", figures.channel_download, {}, {}, "MiB/s");
  print("files", "api_download", figures.api_download,
        Peer{"channel_download", figures.channel_download, ratio_goal}, {}, "MiB/s");
  for (std::size_t i = 0; i < std::size(daemons); ++i)
    print("files", fmt::format("rss_mib {}", daemons[i]), figures.resident[i], {}, {}, "MiB");
  print("files", "rss_mib space-daemon", figures.guest_resident, {}, {}, "MiB");
  print("files", "idle_daemon_cpu", figures.idle, {}, idle_goal_percent, "%");
}

Task<Result<void>> measure(std::string template_folder, int rounds) {
  SPACE_CO_TRY(const auto api, co_await Api::connect(limit()));
  SPACE_CO_TRY(const ApiSandbox sandbox, co_await api->create(limit()));
  Figures figures;
  const Target target{api->connection(), sandbox};
  SPACE_CO_CHECK(co_await measure_idle(target, figures));
  SPACE_CO_TRY(const auto vm, BareVm::prepare(template_folder, {}));
  SPACE_CO_CHECK(vm->start());
  SPACE_CO_TRY(const auto session, co_await vm->attach(limit()));
  for (int i = 0; i < rounds; ++i) SPACE_CO_CHECK(co_await round(target, session, figures));
  report(figures);
  session->close("measured");
  co_return co_await api->kill(sandbox.id, limit());
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  return space::bench::bench_main(argc, argv, "files", 3, space::bench::measure);
}
