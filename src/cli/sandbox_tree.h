// SandboxTree: a Tree in a sandbox.
#pragma once

#include "cli/remote_files.h"

namespace space::cli {

class SandboxTree final : public Tree {
 public:
  // `root` as the daemon takes paths: absolute, or from the user's home.
  SandboxTree(RemoteFiles files, std::string root) : files_(std::move(files)), root_(std::move(root)) {}

  std::string describe(const std::string& path) const override;
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
  // Where the parts of an earlier transfer end.
  Task<Result<std::uint64_t>> parts_end(std::string path, std::string part_key);
  Task<Result<void>> run(std::vector<std::string> argv);
  std::string absolute(const std::string& path) const { return join(root_, path); }

  RemoteFiles files_;
  std::string root_;
};

}  // namespace space::cli
