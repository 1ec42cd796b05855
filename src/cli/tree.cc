#include "cli/tree.h"

#include <fmt/format.h>

#include <filesystem>

namespace space::cli {

namespace {

constexpr std::size_t name_max = 255;

// FNV-1a: names need no secrecy, only to differ.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return value;
}

}  // namespace

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= name_max && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string join(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  if (name.empty()) return std::string(folder);
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

std::string folder_of(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return "";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string last_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  const auto name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return is_file_name(name) && name != "~" ? std::string(name) : "";
}

std::string part_name(std::string_view part_key) {
  return fmt::format(".space-part-{:016x}", hash(part_key));
}

std::string link_within(const std::string& root, const std::string& folder, const std::string& target) {
  const auto clean_root = std::filesystem::path(root).lexically_normal();
  const auto clean_target = std::filesystem::path(target).lexically_normal();
  if (!clean_root.is_absolute() || !clean_target.is_absolute()) return "";
  const auto inside = clean_target.lexically_relative(clean_root);
  if (inside.empty() || *inside.begin() == "..") return "";
  return clean_target.lexically_relative(std::filesystem::path(folder).lexically_normal()).string();
}

}  // namespace space::cli
