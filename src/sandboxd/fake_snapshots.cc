#include "sandboxd/fake_snapshots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "sandboxd/fake_memory.h"

namespace space {
namespace {

Fd copy_of(const Fd& file) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) std::abort();
  Fd copy = make_zeros(static_cast<std::uint64_t>(status.st_size));
  std::string bytes;
  for (off_t data = 0; (data = ::lseek(file.get(), data, SEEK_DATA)) >= 0;) {
    const off_t hole = ::lseek(file.get(), data, SEEK_HOLE);
    bytes.resize(static_cast<std::size_t>(hole - data));
    if (::pread(file.get(), bytes.data(), bytes.size(), data) != hole - data) std::abort();
    if (::pwrite(copy.get(), bytes.data(), bytes.size(), data) != hole - data) std::abort();
    data = hole;
  }
  return copy;
}

std::vector<Fd> opened(const FakeSnapshots::Snapshot& snapshot, int memory_access, int access) {
  std::vector<Fd> fds;
  if (snapshot.memory) {
    fds.push_back(reopen(snapshot.memory, memory_access));
    fds.push_back(reopen(snapshot.state, access));
  }
  fds.push_back(reopen(snapshot.manifest, access));
  return fds;
}

}  // namespace

Result<std::vector<Fd>> FakeSnapshots::begin(const std::string& id, std::uint64_t number,
                                             std::uint64_t previous, const Fd& launch_memory,
                                             std::string disk) {
  if (finished(id, number) != nullptr) return fail(Code::conflict, "snapshot {} is finished", number);
  const Snapshot* base = previous == 0 ? nullptr : finished(id, previous);
  if (previous != 0 && (base == nullptr || !base->memory))
    return fail(Code::not_found, "the memory to start from is gone");
  Snapshot& made = of[id][number] = {.memory = copy_of(base == nullptr ? launch_memory : base->memory),
                                     .state = make_file(""),
                                     .manifest = make_file(""),
                                     .disk = std::move(disk)};
  return opened(made, O_RDWR, O_WRONLY);
}

Result<std::vector<Fd>> FakeSnapshots::begin_disk(const std::string& id, std::uint64_t number,
                                                  std::string disk) {
  if (finished(id, number) != nullptr) return fail(Code::conflict, "snapshot {} is finished", number);
  Snapshot& made =
      of[id][number] = {.memory = Fd(), .state = Fd(), .manifest = make_file(""), .disk = std::move(disk)};
  return opened(made, O_RDWR, O_WRONLY);
}

Result<void> FakeSnapshots::finish(const std::string& id, std::uint64_t number) {
  const auto sandbox = of.find(id);
  if (sandbox == of.end() || !sandbox->second.contains(number))
    return fail(Code::not_found, "snapshot {} was not begun", number);
  sandbox->second[number].finished = true;
  return {};
}

Result<std::vector<Fd>> FakeSnapshots::open(const std::string& id, std::uint64_t number) const {
  const Snapshot* found = finished(id, number);
  if (found == nullptr) return fail(Code::not_found, "there is no such snapshot");
  auto fds = opened(*found, O_RDONLY, O_RDONLY);
  fds.push_back(reopen(make_file(found->disk), O_RDONLY));
  return fds;
}

void FakeSnapshots::remove(const std::string& id, std::uint64_t number) {
  const auto sandbox = of.find(id);
  if (sandbox == of.end()) return;
  sandbox->second.erase(number);
  if (sandbox->second.empty()) of.erase(sandbox);
}

const FakeSnapshots::Snapshot* FakeSnapshots::finished(const std::string& id, std::uint64_t number) const {
  const auto sandbox = of.find(id);
  if (sandbox == of.end()) return nullptr;
  const auto found = sandbox->second.find(number);
  return found == sandbox->second.end() || !found->second.finished ? nullptr : &found->second;
}

void FakeSnapshots::remove_unfinished() {
  for (auto& [id, numbers] : of)
    std::erase_if(numbers, [](const auto& entry) { return !entry.second.finished; });
  std::erase_if(of, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace space
