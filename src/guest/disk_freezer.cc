#include "guest/disk_freezer.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/cgroup.h"

namespace space::guest {

namespace {

// Unwritten memory beyond which a flush with everything running comes first.
constexpr std::uint64_t flush_from_kib = 1024;
constexpr std::size_t meminfo_bytes_max = 16 * 1024;

Result<void> control_root(unsigned long request, const char* what) {
  SPACE_TRY(const Fd root, open_fd("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::ioctl(root.get(), request, 0) != 0) return fail_errno(errno, what);
  return {};
}

// While it lives the kernel waits for its readers at once instead of in its own time: a freeze does that
// three times, which is 10 ms each, with every writer held up.
class ImpatientKernel {
 public:
  ImpatientKernel() : switch_(open_fd("/sys/kernel/rcu_expedited", O_RDWR | O_CLOEXEC).value_or(Fd())) {
    char value = 0;
    if (!switch_ || ::pread(switch_.get(), &value, 1, 0) != 1 || value != '0' || !set("1")) switch_.reset();
  }
  ~ImpatientKernel() {
    if (switch_) (void)set("0");
  }
  ImpatientKernel(const ImpatientKernel&) = delete;
  ImpatientKernel& operator=(const ImpatientKernel&) = delete;

 private:
  bool set(const char* value) { return ::pwrite(switch_.get(), value, 1, 0) == 1; }
  Fd switch_;  // none: it is as it was
};

Result<void> freeze_root() {
  const ImpatientKernel impatient;
  return control_root(FIFREEZE, "freeze the disk");
}

void flush_root() {
  const auto text = read_file("/proc/meminfo", meminfo_bytes_max);
  const std::uint64_t unwritten = text ? keyed_number(*text, "Dirty").value_or(flush_from_kib) +
                                             keyed_number(*text, "Writeback").value_or(0)
                                       : flush_from_kib;
  if (unwritten < flush_from_kib) return;
  if (const auto root = open_fd("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) ::syncfs(root->get());
}

}  // namespace

DiskFreezer::Calls DiskFreezer::root_calls() {
  return {.flush = flush_root, .freeze = freeze_root, .thaw = [] {
            return control_root(FITHAW, "thaw the disk");
          }};
}

// One freeze, from its wish to its end. The thread and the loop share it.
struct DiskFreezer::Hold {
  enum class State { freezing, frozen, ended };

  Hold(const Executor& executor, Calls its_calls, Deadline end)
      : calls(std::move(its_calls)), until(end), stepped(executor) {}

  void release() {
    const std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
  State now() {
    const std::lock_guard lock(mutex);
    return state;
  }

  Calls calls;
  const Deadline until;
  Event stepped;  // the loop's: the state is another
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::freezing;
  bool released = false;                  // nobody wants it any more
  bool held = false;                      // at the end: it was frozen until it was released
  Result<void> outcome = Result<void>();  // of the freeze; read once it has ended
};

DiskFreezer::DiskFreezer(const Executor& executor, Calls calls)
    : executor_(executor), calls_(std::move(calls)) {}

DiskFreezer::~DiskFreezer() {
  if (hold_) hold_->release();
  if (thread_.joinable()) thread_.join();
}

bool DiskFreezer::busy() const {
  return hold_ && hold_->now() != Hold::State::ended;
}

// Between a freeze and its thaw the thread does nothing that could write.
void DiskFreezer::run(const std::shared_ptr<Hold>& hold, const Executor& executor) {
  const auto step_to = [&](Hold::State state) {
    hold->state = state;
    boost::asio::post(executor, [hold] { hold->stepped.notify_all(); });
  };
  const auto is_wanted = [&] {
    const std::lock_guard lock(hold->mutex);
    return !hold->released && !hold->until.passed();
  };
  hold->calls.flush();
  hold->outcome = is_wanted() ? hold->calls.freeze() : fail(Code::conflict, "nobody waits for it any more");
  bool held = false;
  if (hold->outcome) {
    std::unique_lock lock(hold->mutex);
    if (!hold->released) {
      step_to(Hold::State::frozen);
      held = hold->changed.wait_until(lock, hold->until.when(), [&] { return hold->released; });
    }
    lock.unlock();
    const auto thawed = hold->calls.thaw();
    if (!thawed) log::warn("the disk was thawed by somebody else", {log::Field(thawed.error())});
    held = held && thawed;
  }
  const std::lock_guard lock(hold->mutex);
  hold->held = held;
  step_to(Hold::State::ended);
}

Task<Result<void>> DiskFreezer::freeze(Millis limit) {
  const Deadline until = Deadline::after(limit);
  const Deadline frozen_by = Deadline::after(limit / 2);
  while (busy()) {
    (void)co_await thaw(frozen_by);
    if (frozen_by.passed()) co_return fail(Code::conflict, "an earlier freeze of the disk does not end");
  }
  if (thread_.joinable()) thread_.join();
  const auto hold = hold_ = std::make_shared<Hold>(executor_, calls_, until);
  thread_ = std::thread([hold, executor = executor_] { run(hold, executor); });
  while (hold->now() == Hold::State::freezing)
    if (!co_await hold->stepped.wait(frozen_by)) break;
  const auto state = hold->now();
  if (state == Hold::State::frozen) co_return Result<void>();
  hold->release();
  if (state == Hold::State::freezing) co_return fail(Code::deadline, "the disk was not frozen in time");
  if (!hold->outcome) co_return hold->outcome;
  co_return fail(Code::conflict, "the disk was thawed meanwhile");
}

Task<bool> DiskFreezer::thaw(Deadline deadline) {
  const auto hold = hold_;
  if (!hold) co_return false;
  const bool first = hold->now() == Hold::State::frozen;
  hold->release();
  while (hold->now() != Hold::State::ended)
    if (!co_await hold->stepped.wait(deadline)) break;
  co_return first && hold->now() == Hold::State::ended && hold->held;
}

}  // namespace space::guest
