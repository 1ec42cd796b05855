// The names that templates and snapshots are asked for by, and those a snapshot can be given. Pure; fuzzed.
//
//   name · name:tag · team/name · team/name:tag · an id in place of the name
//
// Names and tags of snapshots are kept in lower case, whatever case they are asked for in.
#pragma once

#include <string>
#include <string_view>

#include "store/records.h"

namespace space::control {

inline constexpr std::string_view default_tag = "default";

struct TemplateKey {
  std::string name;          // a name or an id; with another team's prefix still on it, which no name has
  std::string tag;           // "" = none was given
  bool of_own_team = false;  // the prefix was given: a snapshot is meant before a template
};

TemplateKey parse_template_key(std::string_view text, std::string_view team);

// Of a new snapshot. invalid_argument says what a name may be. The tag is never empty.
struct SnapshotName {
  std::string name;
  std::string tag = std::string(default_tag);
};
Result<SnapshotName> parse_snapshot_name(std::string_view text, std::string_view team);

std::string lower_case(std::string_view text);

// "team/name:tag", or "id:tag" of one without a name: names this very snapshot in every request.
std::string snapshot_id_of(const store::SnapshotTemplate& row, std::string_view team);

}  // namespace space::control
