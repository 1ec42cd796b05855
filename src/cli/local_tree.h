// LocalTree: a Tree on this machine.
#pragma once

#include "base/fd.h"
#include "cli/tree.h"

namespace space::cli {

class LocalTree final : public Tree {
 public:
  // `path` as the user typed it: its own links are followed, none below it is. Its folder must exist.
  static Result<std::unique_ptr<LocalTree>> open(const std::string& path);

  std::string describe(const std::string& path) const override { return join(shown_, path); }
  Task<Result<std::optional<Entry>>> stat(std::string path) override;
  Task<Result<std::vector<Entry>>> list(std::string path) override;
  Task<Result<std::unique_ptr<Reader>>> read(std::string path, std::uint64_t offset) override;
  Task<Result<bool>> make_directory(std::string path) override;
  Task<Result<void>> make_link(std::string path, std::string target) override;
  Task<Result<std::uint64_t>> partial(std::string path, std::string part_key) override;
  Task<Result<std::unique_ptr<Writer>>> write(std::string path, WriteOptions options) override;
  unsigned mode_of_new(const Entry& entry) const override;
  Task<Result<void>> set_modes(std::map<unsigned, std::vector<std::string>> paths) override;

 private:
  struct Slot {  // where an entry is or will be
    Fd folder;
    std::string name;
  };
  LocalTree(Fd base, std::string name, std::string shown)
      : base_(std::move(base)), name_(std::move(name)), shown_(std::move(shown)) {}

  Result<Fd> open_below(const std::string& path, int flags) const;
  Result<Slot> slot(const std::string& path) const;

  Fd base_;           // the folder of the root
  std::string name_;  // of the root in it
  std::string shown_;
};

}  // namespace space::cli
