// FakeQemu: the QMP side of a QEMU that keeps state, for tests. It misbehaves only where told to.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/json.h"
#include "net/stream.h"

namespace space::vmm {

struct FakeQemu {
  // The virtual machine.
  std::string state = "running";
  std::string console = "booting\n";
  std::vector<std::string> commands;  // seen, in order
  // Its devices: what it saves, and what it was given to load. With state "inmigrate" it waits for one.
  std::string device_state = "QEVM of a fake";
  std::string loaded_state;
  std::map<std::int64_t, Fd> fd_sets;  // by number
  std::size_t most_in_flight = 0;

  // How it behaves.
  std::string greeting =
      R"({"QMP":{"version":{"qemu":{"micro":2,"minor":0,"major":10},"package":"Debian"},"capabilities":["oob"]}})";
  std::size_t chunk_bytes = 65536;                 // writes are cut into pieces of this size
  std::map<std::string, std::string> raw_answers;  // command -> text sent instead of the answer
  std::map<std::string, std::string> before;       // command -> text sent before the answer
  std::vector<std::string> held;                   // answers of command "hold", sent by "release"
  std::map<std::string, std::string> failing;      // command -> the text of its refusal
  int polls_while_loading = 2;                     // query-migrate answers so often that it is under way

  // Serves one client until it goes. `self` outlives the task.
  static Task<void> serve(FakeQemu& self, StreamPtr stream) {
    co_await self.send(*stream, self.greeting + "\r\n");
    std::string input;
    std::array<std::byte, 4096> chunk;
    while (true) {
      const auto count = co_await stream->read(chunk);
      if (!count || *count == 0) break;
      input.append(as_text(std::span(chunk).first(*count)));
      for (auto end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
        const std::string line = input.substr(0, end);
        input.erase(0, end + 1);
        self.most_in_flight = std::max(self.most_in_flight, input.empty() ? 1uz : 2uz);
        if (!co_await self.answer(*stream, line)) co_await stream->finish();
      }
    }
  }

 private:
  Task<bool> answer(Stream& stream, std::string line) {
    auto command = parse_json_object(line, "command");
    const std::string name(command ? command->at("execute").as_string() : "");
    commands.push_back(name);
    if (const auto text = before.find(name); text != before.end()) co_await send(stream, text->second);
    if (const auto text = raw_answers.find(name); text != raw_answers.end()) {
      co_await send(stream, text->second);
      co_return true;
    }
    JsonObject reply = execute(
        name, command->contains("arguments") ? command->at("arguments").as_object() : JsonObject(), stream);
    reply["id"] = command->at("id");
    if (name == "hold") {
      held.push_back(space::to_text(reply) + "\r\n");
      co_return true;
    }
    if (name == "release") {
      for (const std::string& text : std::exchange(held, {})) co_await send(stream, text);
    }
    co_await send(stream, space::to_text(reply) + "\r\n");
    co_return name != "quit";
  }

  JsonObject execute(const std::string& name, const JsonObject& arguments, Stream& stream) {
    static const std::vector<std::string> empty_answer = {"qmp_capabilities", "system_powerdown", "quit",
                                                          "hold", "release"};
    if (const auto text = failing.find(name); text != failing.end()) return refusal(text->second);
    if (name == "query-status") return {{"return", {{"running", state == "running"}, {"status", state}}}};
    if (name == "ringbuf-read") return {{"return", std::exchange(console, "")}};
    if (name == "stop" || name == "cont") return run_or_stop(name);
    if (name == "add-fd") return add_fd(stream.take_descriptor());
    if (name == "remove-fd") return remove_fd(arguments.at("fdset-id").as_int64());
    if (name == "query-fdsets") return list_fd_sets();
    if (name == "xen-save-devices-state") return save(std::string(arguments.at("filename").as_string()));
    if (name == "migrate-incoming") return load(std::string(arguments.at("uri").as_string()));
    if (name == "query-migrate") return progress();
    if (std::ranges::find(empty_answer, name) != empty_answer.end()) return {{"return", JsonObject()}};
    return {
        {"error", {{"class", "CommandNotFound"}, {"desc", "The command " + name + " has not been found"}}}};
  }

  static JsonObject refusal(std::string text) {
    return {{"error", {{"class", "GenericError"}, {"desc", std::move(text)}}}};
  }

  JsonObject run_or_stop(const std::string& name) {
    if (state == "shutdown") return refusal("Resetting the Virtual Machine is required");
    // One that waits for its devices agrees to everything, and does nothing.
    if (state != "inmigrate") state = name == "stop" ? "paused" : "running";
    return {{"return", JsonObject()}};
  }

  JsonObject add_fd(Fd fd) {
    if (!fd) return refusal("No file descriptor supplied via SCM_RIGHTS");
    std::int64_t number = 0;
    while (fd_sets.contains(number)) ++number;
    fd_sets[number] = std::move(fd);
    return {{"return", {{"fdset-id", number}, {"fd", 99}}}};
  }

  JsonObject remove_fd(std::int64_t number) {
    if (fd_sets.erase(number) == 0) return refusal("File descriptor named 'fdset' not found");
    return {{"return", JsonObject()}};
  }

  JsonObject list_fd_sets() const {
    JsonArray sets;
    for (const auto& [number, fd] : fd_sets)
      sets.push_back(JsonObject{{"fdset-id", number}, {"fds", JsonArray()}});
    return {{"return", sets}};
  }

  // The descriptor of that name, if it was opened in the way it is to be used.
  int open_set(std::string_view name, int access) {
    for (const auto& [number, fd] : fd_sets) {
      const bool named = name == "/dev/fdset/" + std::to_string(number);
      if (named && (::fcntl(fd.get(), F_GETFL) & O_ACCMODE) == access) return fd.get();
    }
    return -1;
  }

  JsonObject save(const std::string& filename) {
    const int fd = open_set(filename, O_WRONLY);
    if (fd < 0) return refusal("Failed to find file descriptor with matching flags=0x241");
    if (::ftruncate(fd, 0) != 0) return refusal("Failed to dup() given file descriptor");
    if (!write_all(fd, as_bytes(device_state))) return refusal("An IO error has occurred");
    return {{"return", JsonObject()}};
  }

  JsonObject load(std::string_view uri) {
    if (state != "inmigrate") return refusal("'-incoming' was not specified on the command line");
    const int fd = uri.starts_with("file:") ? open_set(uri.substr(5), O_RDONLY) : -1;
    if (fd < 0) return refusal("Failed to find file descriptor with matching flags=0x0");
    std::array<char, 4096> chunk;
    for (ssize_t n = 0; (n = ::read(fd, chunk.data(), chunk.size())) > 0;)
      loaded_state.append(chunk.data(), static_cast<std::size_t>(n));
    return {{"return", JsonObject()}};
  }

  JsonObject progress() {
    if (loaded_state.empty()) return {{"return", JsonObject()}};
    if (polls_while_loading-- > 0) return {{"return", {{"status", "active"}}}};
    if (!loaded_state.starts_with("QEVM"))
      return {
          {"return", {{"status", "failed"}, {"error-desc", "load of migration failed: Invalid argument"}}}};
    if (state == "inmigrate") state = "paused";
    return {{"return", {{"status", "completed"}}}};
  }

  Task<void> send(Stream& stream, std::string text) {
    for (std::string_view rest = text; !rest.empty();) {
      const auto piece = rest.substr(0, chunk_bytes);
      if (!co_await stream.write(as_bytes(piece))) co_return;
      rest.remove_prefix(piece.size());
    }
  }
};

}  // namespace space::vmm
