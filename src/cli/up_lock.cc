#include "cli/up_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/bytes.h"

namespace space::cli {

namespace {

constexpr std::string_view clear_line = "\r\x1b[K";

struct Kept {
  int done = 0;
  int of = 0;
};

std::optional<Kept> parse_kept(const std::string& text) {
  Kept kept;
  if (std::sscanf(text.c_str(), "%6d %6d", &kept.done, &kept.of) != 2 || kept.done < 0 || kept.of < kept.done)
    return std::nullopt;
  return kept;
}

}  // namespace

Result<Fd> take_up_lock(const std::string& run, Millis stop_limit) {
  SPACE_TRY(Fd lock, open_fd(run + "/up.lock", O_RDWR | O_CREAT, 0600));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::conflict, "SPACE is already up (run directory {})", run);
  const std::string text = fmt::format("{}\n{}\n", ::getpid(), stop_limit.count());
  if (::ftruncate(lock.get(), 0) != 0) return fail_errno(errno, "write lock file");
  SPACE_CHECK(write_all(lock.get(), as_bytes(text)));
  return lock;
}

Result<RunningSupervisor> running_supervisor(const std::string& run) {
  SPACE_TRY(const Fd lock, open_fd(run + "/up.lock", O_RDWR));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0)
    return fail(Code::not_found, "SPACE is not up (run directory {})", run);
  SPACE_TRY(const std::string text, read_file(run + "/up.lock", 64));
  int pid = 0;
  long stop_limit_ms = 0;
  if (std::sscanf(text.c_str(), "%d %ld", &pid, &stop_limit_ms) < 1 || pid <= 1)
    return fail(Code::internal, "{}/up.lock holds no process id", run);
  return RunningSupervisor{pid, Millis(stop_limit_ms)};
}

std::optional<std::string> keeping_text(const std::string& text) {
  const auto kept = parse_kept(text);
  if (!kept || kept->of == 0) return std::nullopt;
  return fmt::format("keeping {} sandbox{}: {} of {}", kept->of, kept->of == 1 ? "" : "es", kept->done,
                     kept->of);
}

KeepingLine::KeepingLine(const std::string& run, int terminal)
    : path_(run + "/sandboxd/shutdown"), terminal_(terminal), visible_(::isatty(terminal) == 1) {}

KeepingLine::~KeepingLine() {
  if (!drawn_.empty()) (void)write_all(terminal_.get(), as_bytes(clear_line));
}

void KeepingLine::draw() {
  const auto text = read_file(path_, 64);
  const auto kept = text ? parse_kept(*text) : std::nullopt;
  if (!kept) return;
  total_ = kept->of;
  const std::string line = keeping_text(*text).value_or("");
  if (!visible_ || line == drawn_) return;
  drawn_ = line;
  (void)write_all(terminal_.get(), as_bytes(std::string(clear_line) + line));
}

}  // namespace space::cli
