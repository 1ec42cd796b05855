// Tree: a file or a folder with all that is in it, here or in a sandbox, as `space cp` sees it.
//
// Paths are relative to the tree's root, "" being the root itself. A tree in a sandbox is hostile: the names
// it lists were checked to be one component each, and a LocalTree follows no link below its root, whoever put
// it there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/task.h"

namespace space::cli {

struct Entry {
  enum class Kind : unsigned char { file, directory, link, other };
  Kind kind = Kind::other;
  std::string name;              // one component
  std::uint64_t size = 0;        // 0 may mean unknown: procfs
  unsigned mode = 0;             // permission bits, 0777 at most
  std::int64_t modified_ns = 0;  // since 1970
  std::string target;            // of a link; empty: it leads out of a tree that is not trusted
};

class Reader {
 public:
  virtual ~Reader() = default;
  virtual std::optional<std::uint64_t> length() const = 0;  // what comes; nothing: until the end
  virtual Task<Result<std::size_t>> read(std::span<std::byte> into) = 0;  // 0 at the end
};

struct WriteOptions {
  std::optional<std::uint64_t> size;  // of the whole file
  unsigned mode = 0644;
  std::string part_key;      // names what an interrupted transfer leaves: source and version
  std::uint64_t offset = 0;  // what `partial` said; the rest follows
};

// The file appears whole, at `commit`; without it, what was written stays as a part.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual Task<Result<void>> write(std::span<const std::byte> bytes) = 0;
  virtual Task<Result<void>> commit() = 0;
};

class Tree {
 public:
  virtual ~Tree() = default;
  virtual std::string describe(const std::string& path) const = 0;  // for people

  virtual Task<Result<std::optional<Entry>>> stat(std::string path) = 0;  // a link at the root is followed
  virtual Task<Result<std::vector<Entry>>> list(std::string path) = 0;    // of a directory, by name
  virtual Task<Result<std::unique_ptr<Reader>>> read(std::string path, std::uint64_t offset) = 0;

  virtual Task<Result<bool>> make_directory(std::string path) = 0;  // false: it was there
  // invalid_argument: this tree cannot hold it.
  virtual Task<Result<void>> make_link(std::string path, std::string target) = 0;
  // Bytes of an earlier transfer with that key.
  virtual Task<Result<std::uint64_t>> partial(std::string path, std::string part_key) = 0;
  virtual Task<Result<std::unique_ptr<Writer>>> write(std::string path, WriteOptions options) = 0;
  // What a new one has before anybody sets its mode.
  virtual unsigned mode_of_new(const Entry& entry) const = 0;
  virtual Task<Result<void>> set_modes(std::map<unsigned, std::vector<std::string>> paths) = 0;
};

// Pure helpers of both kinds.
bool is_file_name(std::string_view name);  // one component that a directory can hold
std::string join(std::string_view folder, std::string_view name);
std::string folder_of(std::string_view path);      // "" for "a"
std::string last_name(std::string_view path);      // "a" for "/x/a/"; "" for "/" and "x/."
std::string part_name(std::string_view part_key);  // ".space-part-…"
// `target` as seen from `folder`, if it lies at or below `root`; all three absolute. "" if not.
std::string link_within(const std::string& root, const std::string& folder, const std::string& target);

}  // namespace space::cli
