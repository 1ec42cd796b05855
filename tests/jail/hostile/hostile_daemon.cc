// Stands in for space-daemon as process 1 of a guest that its owner has taken over. Boots the machine like
// it, answers SYNC and the first calls like it, and then attacks the host on the channel. Which attack: the
// last line of its own file ("attack=NAME"), or the sandbox's environment variable ATTACK. Says on the
// console what it does; a test reads that in the sandbox's log.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/log.h"
#include "guest/init.h"
#include "net/channel.h"
#include "tests/jail/hostile/attacks.h"
#include "tests/jail/hostile/session.h"
#include "tests/jail/hostile/wire.h"

namespace space::hostile {
namespace {

using namespace std::chrono_literals;

constexpr auto attack_time = 2500ms;
constexpr auto mute_time = 11s;  // of an attack that says nothing
constexpr auto sync_time = 6s;   // from the order on every SYNC is met with the attack

Fd open_port() {
  const std::string folder = "/sys/class/virtio-ports";
  for (;; ::usleep(20'000)) {
    const std::unique_ptr<DIR, int (*)(DIR*)> ports(::opendir(folder.c_str()), ::closedir);
    while (const dirent* entry = ports ? ::readdir(ports.get()) : nullptr) {
      std::string name;
      std::ifstream(folder + "/" + entry->d_name + "/name") >> name;
      if (name == "space.0")
        return Fd(::open(("/dev/" + std::string(entry->d_name)).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    }
  }
}

// "NAME" of the text after `mark`, as far as it is a name.
std::string name_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + mark.size());
  return std::string(text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-")));
}

std::string name_in_own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  file.seekg(-64, std::ios::end);
  return name_after(std::string(std::istreambuf_iterator<char>(file), {}), "\nattack=");
}

class HostileDaemon {
 public:
  explicit HostileDaemon(Fd port) : wire_(std::move(port)) {}

  [[noreturn]] void run() {
    attack_ = find_attack(name_in_own_file());
    if (attack_ != nullptr) armed_until_ = Until::max();
    for (;;) {
      await_sync();
      if (attacks_at(Stage::boot) || attacks_at(Stage::sync)) {
        attack();
        continue;
      }
      wire_.write(scene_.answer, std::chrono::steady_clock::now() + 5s, false);
      Session session(wire_, std::move(rest_));
      serve(session);
      rest_ = session.take_rest();
    }
  }

 private:
  bool attacks_at(Stage stage) const {
    return attack_ != nullptr && attack_->stage == stage && std::chrono::steady_clock::now() < armed_until_;
  }

  void await_sync() {
    channel::Scanner<channel::Sync> scanner(SIZE_MAX);
    std::string bytes = std::exchange(rest_, {});
    for (;; bytes = wire_.read(1'000)) {
      const auto found = scanner.feed(as_bytes(bytes));
      if (!found || !*found) continue;
      const channel::Sync& sync = **found;
      if (scene_.old_answer.empty()) scene_.old_answer = scene_.answer;
      scene_.sync = as_text(channel::encode(sync));
      scene_.answer = as_text(channel::encode(channel::SyncAck{.version = 1, .nonce = sync.nonce}));
      scene_.no_version = as_text(channel::encode(channel::SyncAck{.version = 0xffff, .nonce = sync.nonce}));
      rest_ = as_text(scanner.take_rest());
      return;
    }
  }

  // Until the session is over, by the host's will or by ours.
  void serve(Session& session) {
    while (const auto asked = session.next()) {
      scene_.stream = asked->stream;
      if (asked->tunnel) choose(name_after(asked->body, "GET /attack/"));
      if (attacks_at(asked->tunnel ? Stage::tunnel : Stage::call)) {
        attack();
        armed_until_ = {};
        return break_session();
      }
      if (!asked->tunnel) {
        session.answer(asked->stream, "{}");
        continue;
      }
      if (attacks_at(Stage::sync)) return break_session();
      session.answer(asked->stream, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n");
    }
  }

  // Ends whatever frame is open, and then is none: the host attaches anew.
  void break_session() {
    wire_.write(std::string(65'536, '\xff'), std::chrono::steady_clock::now() + 1s, true);
  }

  void choose(const std::string& name) {
    if (name.empty()) return;
    attack_ = find_attack(name);
    const bool once = attack_ != nullptr && attack_->stage != Stage::sync;
    armed_until_ = once ? Until::max() : std::chrono::steady_clock::now() + sync_time;
    std::printf("hostile: will %s\n", attack_ == nullptr ? "do nothing" : name.c_str());
  }

  void attack() {
    const Script script = attack_->script(scene_);
    const auto before = wire_.written();
    const bool mute = script.once.empty() && script.again.empty();
    // While it boots the host asks anew all the time, and only the newest question can be answered.
    const bool short_answer = script.again.empty() && attack_->stage == Stage::boot;
    const auto time = short_answer ? Millis(100) : mute ? Millis(mute_time) : Millis(attack_time);
    const Until until = std::chrono::steady_clock::now() + time;
    bool taken =
        script.pause_ms == 0 ? wire_.write(script.once, until, script.reads) : trickle(script, until);
    while (taken && std::chrono::steady_clock::now() < until && wire_.host_is_there()) {
      if (script.again.empty() || script.pause_ms != 0) ::usleep(10'000);
      if (script.reads && script.again.empty()) wire_.read(0);
      taken = wire_.write(script.again, until, script.reads);
    }
    std::printf("hostile: %s sent %llu bytes, the host %s\n", std::string(attack_->name).c_str(),
                wire_.written() - before, wire_.host_is_there() ? "is there" : "hung up");
  }

  bool trickle(const Script& script, Until until) {
    for (const char byte : script.once) {
      if (!wire_.write(std::string_view(&byte, 1), until, script.reads)) return false;
      ::usleep(static_cast<useconds_t>(script.pause_ms) * 1'000);
    }
    return true;
  }

  Wire wire_;
  Scene scene_;
  std::string rest_;  // what followed the last SYNC
  const Attack* attack_ = nullptr;
  Until armed_until_;
};

}  // namespace
}  // namespace space::hostile

int main() {
  space::log::init("space-daemon");
  if (::getpid() != 1) return 2;
  if (const auto started = space::guest::start_machine(); !started) {
    space::log::error("cannot start", {space::log::Field(started.error())});
    space::guest::stop_machine(false, true);
    return 1;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  space::hostile::HostileDaemon(space::hostile::open_port()).run();
}
