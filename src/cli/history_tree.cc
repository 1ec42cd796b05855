#include "cli/history_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/fields.h"
#include "cli/output.h"

namespace space::cli {

namespace {

constexpr int depth_max = 32;  // of branches of branches

struct Item {
  std::optional<Wall> at;
  std::string text;
  std::vector<Item> below;
};

// Without a time: last. Those of one time stay as they were.
void sort_by_time(std::vector<Item>& items) {
  std::vector<Item> sorted;
  for (Item& item : items) {
    const auto time = item.at.value_or(Wall::max());
    const auto after = std::ranges::find_if(
        sorted, [&](const Item& other) { return other.at.value_or(Wall::max()) > time; });
    sorted.insert(after, std::move(item));
  }
  items = std::move(sorted);
}

struct Snapshot {
  std::int64_t parent = 0;  // 0: none that is drawn
  std::int64_t newest = 0;  // number of the newest that continues it
  std::vector<std::int64_t> children;
  std::vector<Item> notes;  // forks, rollbacks and recoveries
  std::optional<Wall> at;
  std::string text;
};

std::string quoted(const std::string& name) {
  return name.empty() ? "" : fmt::format("  \"{}\"", name);
}

std::string words_of(std::string cause) {
  std::ranges::replace(cause, '_', ' ');
  return cause;
}

std::string text_of(const JsonObject& snapshot) {
  std::string text =
      fmt::format("{}  {}  {}  {}  {}{}", number_at(snapshot, "number"), text_at(snapshot, "kind"),
                  moment_text(time_at(snapshot, "createdAt")), words_of(text_at(snapshot, "cause")),
                  bytes_at(snapshot, "writtenBytes"), quoted(text_at(snapshot, "name", "")));
  if (flag_at(snapshot, "pinned")) text += "  pinned";
  if (flag_at(snapshot, "published")) text += "  published";
  const auto quiesced = bool_member(snapshot, "quiesced");
  if (quiesced && !quiesced->value_or(true)) text += "  guest did not answer";
  return text;
}

class History {
 public:
  explicit History(const JsonObject& history) : head_(number_at(history, "head")) {
    for (const JsonObject& one : objects_in(history, "snapshots")) add_snapshot(one);
    relate();
    for (const JsonObject& event : objects_in(history, "events")) add_event(event);
    for (const JsonObject& fork : objects_in(history, "forks")) add_fork(fork, std::nullopt);
  }

  std::vector<Item> items() const {
    std::vector<Item> items;
    std::int64_t first = 0;
    for (const auto& [number, snapshot] : snapshots_) {
      if (snapshot.parent != 0) continue;
      if (lineage_.contains(number)) {
        first = number;
      } else {
        items.push_back(branch(number, 0));
      }
    }
    if (first != 0) {
      auto trunk = chain(first, 0);
      std::ranges::move(trunk, std::back_inserter(items));
    }
    place_loose(items);
    if (removed_ > 0)
      items.push_back({std::nullopt, fmt::format("{} removed", plural(removed_, "snapshot")), {}});
    items.push_back({std::nullopt, "now", {}});
    return items;
  }

 private:
  static std::string plural(std::int64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  }

  void add_snapshot(const JsonObject& one) {
    const std::int64_t number = number_at(one, "number");
    if (number == 0) return;
    Snapshot& snapshot = snapshots_[number];
    snapshot.parent = number_at(one, "parent");
    snapshot.at = time_at(one, "createdAt");
    snapshot.text = text_of(one);
  }

  // A parent has a smaller number, so this order ends, whatever was sent.
  void relate() {
    for (auto& [number, snapshot] : snapshots_) {
      if (snapshot.parent >= number || !snapshots_.contains(snapshot.parent)) snapshot.parent = 0;
      if (snapshot.parent != 0) snapshots_[snapshot.parent].children.push_back(number);
    }
    for (auto each = snapshots_.rbegin(); each != snapshots_.rend(); ++each) {
      Snapshot& snapshot = each->second;
      snapshot.newest = std::max(snapshot.newest, each->first);
      if (snapshot.parent == 0) continue;
      Snapshot& parent = snapshots_[snapshot.parent];
      parent.newest = std::max(parent.newest, snapshot.newest);
    }
    for (auto at = snapshots_.find(head_); at != snapshots_.end(); at = snapshots_.find(at->second.parent))
      lineage_.insert(at->first);
  }

  void add_event(const JsonObject& event) {
    const std::string kind = text_at(event, "kind");
    const std::int64_t number = number_at(event, "number");
    if (kind == "snapshot_removed") {
      ++removed_;
      return;
    }
    const auto at = time_at(event, "at");
    if (kind == "fork") {
      add_fork(event, at);
      return;
    }
    const std::string text = text_at(event, "text", words_of(kind));
    note(number, {at, fmt::format("{}  {}", moment_text(at), text), {}});
  }

  void add_fork(const JsonObject& fork, std::optional<Wall> at) {
    const std::string child = text_at(fork, "sandboxID");
    if (!forks_.insert(child).second) return;
    note(number_at(fork, "number"), {at, "fork " + child, {}});
  }

  void note(std::int64_t number, Item item) {
    const auto found = snapshots_.find(number);
    (found == snapshots_.end() ? loose_ : found->second.notes).push_back(std::move(item));
  }

  // What happened at no snapshot that is still there: between those before and after it.
  void place_loose(std::vector<Item>& items) const {
    for (const Item& item : loose_) {
      const auto later = std::ranges::find_if(
          items, [&](const Item& other) { return item.at && other.at && *other.at > *item.at; });
      items.insert(later, item);
    }
  }

  // The child that goes on where `number` is: towards now, elsewhere towards the newest.
  std::int64_t next_of(std::int64_t number) const {
    const Snapshot& snapshot = snapshots_.at(number);
    std::int64_t next = 0;
    for (const std::int64_t child : snapshot.children) {
      if (lineage_.contains(child)) return child;
      if (next == 0 || snapshots_.at(child).newest > snapshots_.at(next).newest) next = child;
    }
    return lineage_.contains(number) ? 0 : next;  // at the head now goes on
  }

  std::vector<Item> chain(std::int64_t number, int depth) const {
    if (depth > depth_max) return {{std::nullopt, "...", {}}};
    std::vector<Item> items;
    while (number != 0) {
      const Snapshot& snapshot = snapshots_.at(number);
      const std::int64_t next = next_of(number);
      Item item{snapshot.at, snapshot.text, snapshot.notes};
      for (const std::int64_t child : snapshot.children)
        if (child != next) item.below.push_back(branch(child, depth + 1));
      sort_by_time(item.below);
      items.push_back(std::move(item));
      number = next;
    }
    return items;
  }

  Item branch(std::int64_t number, int depth) const {
    return {snapshots_.at(number).at, "branch", chain(number, depth)};
  }

  std::int64_t head_;
  std::map<std::int64_t, Snapshot> snapshots_;
  std::set<std::int64_t> lineage_;
  std::set<std::string> forks_;
  std::vector<Item> loose_;
  std::int64_t removed_ = 0;
};

struct Strokes {
  std::string_view item, last, through, blank;
};
constexpr Strokes box{"├─ ", "└─ ", "│  ", "   "};
constexpr Strokes ascii{"|-- ", "`-- ", "|   ", "    "};

// Escapes what is not ASCII, too.
std::string only_ascii(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80)
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

void draw(std::vector<std::string>& lines, const std::vector<Item>& items, const std::string& margin,
          const Strokes& strokes, bool unicode) {
  for (const Item& item : items) {
    const bool last = &item == &items.back();
    const std::string text = printable(item.text);
    lines.push_back(
        fmt::format("{}{}{}", margin, last ? strokes.last : strokes.item, unicode ? text : only_ascii(text)));
    draw(lines, item.below, fmt::format("{}{}", margin, last ? strokes.blank : strokes.through), strokes,
         unicode);
  }
}

}  // namespace

std::vector<std::string> history_lines(const std::string& sandbox, const JsonObject& history,
                                       Charset charset) {
  std::string title = sandbox;
  if (const JsonObject* origin = object_at(history, "origin"))
    title += fmt::format("  began as snapshot {} of {}", number_at(*origin, "number"),
                         text_at(*origin, "sandboxID"));
  const bool unicode = charset == Charset::unicode;
  title = printable(title);
  std::vector<std::string> lines = {unicode ? title : only_ascii(title)};
  draw(lines, History(history).items(), "", unicode ? box : ascii, unicode);
  return lines;
}

Charset charset_of(const char* lc_all, const char* lc_ctype, const char* lang) {
  for (const char* variable : {lc_all, lc_ctype, lang}) {
    if (variable == nullptr || *variable == '\0') continue;
    std::string name = variable;
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
    return name.find("UTF-8") != name.npos || name.find("UTF8") != name.npos ? Charset::unicode
                                                                             : Charset::ascii;
  }
  return Charset::ascii;
}

}  // namespace space::cli
