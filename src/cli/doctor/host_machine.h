// HostMachine: the real one.
#pragma once

#include "cli/doctor/machine.h"

namespace space::cli::doctor {

class HostMachine final : public Machine {
 public:
  std::optional<std::string> text(const std::string& path) const override;
  std::optional<std::string> tail(const std::string& path) const override;
  std::optional<FileFacts> file(const std::string& path) const override;
  std::optional<std::string> link(const std::string& path) const override;
  std::vector<std::string> names(const std::string& folder) const override;
  std::optional<DiskFacts> disk(const std::string& path) const override;
  std::optional<std::string> output(const std::vector<std::string>& argv) const override;
  bool locked(const std::string& path) const override;
  uid_t user() const override;
  std::int64_t now_s() const override;
  std::uint64_t descriptor_limit() const override;
  int landlock_abi() const override;
  std::string own_folder() const override;
};

}  // namespace space::cli::doctor
