#include "priv/slot.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/bytes.h"
#include "priv/folder.h"
#include "priv/slot_network.h"
#include "priv/slot_rules.h"

namespace space::priv {
namespace {

constexpr const char* own_namespace = "/proc/self/ns/net";
constexpr std::array spare_names{".spare-0", ".spare-1", ".spare-2", ".spare-3"};

// In the other namespace from construction to destruction.
class ScopedNamespace {
 public:
  static Result<ScopedNamespace> enter(const std::string& path) {
    ScopedNamespace scope;
    SPACE_TRY(scope.home_, open_fd(own_namespace, O_RDONLY));
    SPACE_TRY(const Fd other, open_fd(path, O_RDONLY));
    if (::setns(other.get(), CLONE_NEWNET) != 0) return fail_errno(errno, "enter the network namespace");
    return scope;
  }
  ScopedNamespace(ScopedNamespace&&) = default;
  ~ScopedNamespace() {
    // A process that stayed behind would do its next work in a guest's network.
    if (home_ && ::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();
  }

 private:
  ScopedNamespace() = default;
  Fd home_;
};

Result<void> require_slot(const Layout& layout, const std::string& id) {
  return slot_exists(layout, id) ? Result<void>{} : fail(Code::not_found, "{} has no network slot", id);
}

Result<void> furnish(std::uint64_t mbit_per_s) {
  SPACE_CHECK(set_slot_switches());
  SPACE_TRY(const Fd tap, attach_tap());
  if (::ioctl(tap.get(), TUNSETPERSIST, 1) != 0) return fail_errno(errno, "keep the tap");
  SPACE_CHECK(apply_slot_rules(mbit_per_s));  // before anything is up
  SPACE_CHECK(complete_slot_network());
  return {};
}

Result<void> make_namespace(std::uint64_t mbit_per_s) {
  if (::unshare(CLONE_NEWNET) != 0) return fail_errno(errno, "make a network namespace");
  return furnish(mbit_per_s);
}

// Last, so that a slot that can be seen is complete.
Result<void> name_namespace(const std::string& namespace_path, const std::string& path) {
  SPACE_TRY(const Fd name, open_fd(path, O_RDONLY | O_CREAT | O_NOFOLLOW, 0400));
  if (::mount(namespace_path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(errno, "name the network namespace");
  return {};
}

Result<void> remove_by_name(const Layout& layout, const std::string& id) {
  const std::string path = layout.slot(id);
  if (slot_exists(layout, id) && ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
    return fail_errno(errno, "unmount the network namespace");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove the slot");
  return {};
}

// Takes the spare one's name away in any case: what happened to it counts as use.
Result<void> take_spare(const Layout& layout, const std::string& spare, const std::string& id,
                        std::uint64_t mbit_per_s) {
  const auto taken = [&]() -> Result<void> {
    if (mbit_per_s != 0) {
      SPACE_TRY(const auto scope, ScopedNamespace::enter(layout.slot(spare)));
      SPACE_CHECK(apply_slot_rules(mbit_per_s));
    }
    return name_namespace(layout.slot(spare), layout.slot(id));
  }();
  SPACE_CHECK(remove_by_name(layout, spare));
  return taken;
}

}  // namespace

bool slot_exists(const Layout& layout, const std::string& id) {
  struct statfs status{};
  return ::statfs(layout.slot(id).c_str(), &status) == 0 && status.f_type == NSFS_MAGIC;
}

Result<std::uint64_t> slot_number(const Layout& layout, const std::string& id) {
  SPACE_CHECK(require_slot(layout, id));
  struct stat status{};
  if (::stat(layout.slot(id).c_str(), &status) != 0) return fail_errno(errno, "look at the slot");
  return status.st_ino;
}

Result<void> create_slot(const Layout& layout, const SandboxPermit& sandbox, std::uint64_t mbit_per_s,
                         const std::string& spare) {
  const std::string& id = sandbox.id();
  if (slot_exists(layout, id)) return {};
  if (!spare.empty() && take_spare(layout, spare, id, mbit_per_s)) return {};
  SPACE_CHECK(make_namespace(mbit_per_s));
  return name_namespace(own_namespace, layout.slot(id));
}

Result<void> remove_slot(const Layout& layout, const SandboxPermit& sandbox) {
  return remove_by_name(layout, sandbox.id());
}

Result<Fd> open_tap(const Layout& layout, const SandboxPermit& sandbox) {
  SPACE_TRY(const auto scope, ScopedNamespace::enter(layout.slot(sandbox.id())));
  return attach_tap();
}

Result<SlotSockets> open_sockets_of_slot(const Layout& layout, const SandboxPermit& sandbox) {
  SPACE_CHECK(require_slot(layout, sandbox.id()));
  SPACE_TRY(const auto scope, ScopedNamespace::enter(layout.slot(sandbox.id())));
  return open_slot_sockets();
}

Result<bool> repair_slot(const Layout& layout, const SandboxPermit& sandbox, std::uint64_t mbit_per_s,
                         const std::string& sound_rules, std::uint64_t number) {
  SPACE_TRY(const std::uint64_t found, slot_number(layout, sandbox.id()));
  if (number != 0 && found != number)
    return fail(Code::conflict, "the slot of {} is not the one its VM is connected to", sandbox.id());
  SPACE_TRY(const auto scope, ScopedNamespace::enter(layout.slot(sandbox.id())));
  SPACE_CHECK(require_no_way_out());
  SPACE_TRY(const ListedRules rules, list_slot_rules());
  const bool are_sound = rules.text == sound_rules && rules.limited == (mbit_per_s != 0);
  if (!are_sound) SPACE_CHECK(apply_slot_rules(mbit_per_s));
  SPACE_CHECK(set_slot_switches());
  SPACE_TRY(const bool was_incomplete, complete_slot_network());
  return !are_sound || was_incomplete;
}

Result<void> make_spare_slots(const Layout& layout) {
  for (const std::string name : spare_names) {
    // Whoever makes the file makes the slot.
    const Fd claim(
        ::open(layout.slot(name).c_str(), O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
    if (!claim && errno == EEXIST) continue;
    if (!claim) return fail_errno(errno, "name a spare slot");
    auto made = make_namespace(0);
    if (made) made = name_namespace(own_namespace, layout.slot(name));
    if (made) continue;
    (void)remove_by_name(layout, name);
    return made;
  }
  return {};
}

std::vector<std::string> spare_slots(const Layout& layout) {
  std::vector<std::string> ready;
  for (const char* name : spare_names)
    if (slot_exists(layout, name)) ready.emplace_back(name);
  return ready;
}

namespace {

Result<ListedRules> make_spares_and_list(const Layout& layout) {
  SPACE_CHECK(make_spare_slots(layout));
  return list_slot_rules();
}

}  // namespace

Result<std::string> prepare_slots(const Layout& layout) {
  SPACE_CHECK(remove_unused_slots(layout));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  const Fd read(ends[0]);
  Fd write(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(errno, "fork");
  if (pid == 0) {
    const auto rules = make_spares_and_list(layout);
    (void)write_all(write.get(), as_bytes(rules ? "+" + rules->text : "-" + rules.error().message));
    ::_exit(0);
  }
  write.reset();
  std::string said(64 << 10, '\0');  // far above the length of the rules
  std::size_t filled = 0;
  for (ssize_t got = 0; (got = ::read(read.get(), said.data() + filled, said.size() - filled)) > 0;)
    filled += static_cast<std::size_t>(got);
  ::waitpid(pid, nullptr, 0);
  said.resize(filled);
  if (!said.starts_with('+'))
    return fail(Code::unavailable, "no network slot can be made: {}",
                said.empty() ? "no reason given" : said.substr(1));
  return said.substr(1);
}

Result<void> remove_unused_slots(const Layout& layout) {
  for (const char* name : spare_names) SPACE_CHECK(remove_by_name(layout, name));
  SPACE_TRY(const auto names, names_in(layout.slots()));
  for (const std::string& name : names)
    if (!slot_exists(layout, name)) SPACE_CHECK(remove_by_name(layout, name));
  return {};
}

}  // namespace space::priv
