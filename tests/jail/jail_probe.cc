// usage: jail_probe --list | [NAME=NUMBER...] ROW...
// For every row: "try ROW" before and "ROW OUTCOME" after; a row that is the end of the process has no second
// line.
#include <sys/syscall.h>

#include <cstring>

#include "tests/jail/probe.h"

int main(int count, char** words) {
  using namespace space::jail;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--list") == 0) {
      list_rows();
    } else if (std::strcmp(words[i], "--reborn") == 0) {
      say("reborn", "ok");
    } else if (std::strcmp(words[i], "--hold") == 0) {
      say("held", "ok");
      call(SYS_poll, 0, 0, -1);
    } else if (const Row* row = take_setting(words[i]) ? nullptr : find_row(words[i]); row != nullptr) {
      say("try", row->name);
      say(row->name, row->attempt());
    }
  }
  return 0;
}
