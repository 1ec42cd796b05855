// FakeQemu: the QMP side of a QEMU that keeps state, for tests. It misbehaves only where told to.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "net/stream.h"

namespace space::vmm {

struct FakeQemu {
  // The virtual machine.
  std::string state = "running";
  std::string console = "booting\n";
  std::vector<std::string> commands;  // seen, in order
  std::size_t most_in_flight = 0;

  // How it behaves.
  std::string greeting =
      R"({"QMP":{"version":{"qemu":{"micro":2,"minor":0,"major":10},"package":"Debian"},"capabilities":["oob"]}})";
  std::size_t chunk_bytes = 65536;                 // writes are cut into pieces of this size
  std::map<std::string, std::string> raw_answers;  // command -> text sent instead of the answer
  std::map<std::string, std::string> before;       // command -> text sent before the answer
  std::vector<std::string> held;                   // answers of command "hold", sent by "release"

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
    JsonObject reply = execute(name);
    reply["id"] = command->at("id");
    if (name == "hold") {
      held.push_back(to_text(reply) + "\r\n");
      co_return true;
    }
    if (name == "release") {
      for (const std::string& text : std::exchange(held, {})) co_await send(stream, text);
    }
    co_await send(stream, to_text(reply) + "\r\n");
    co_return name != "quit";
  }

  JsonObject execute(const std::string& name) {
    static const std::vector<std::string> empty_answer = {"qmp_capabilities", "system_powerdown", "quit",
                                                          "hold", "release"};
    if (name == "query-status") return {{"return", {{"running", state == "running"}, {"status", state}}}};
    if (name == "ringbuf-read") return {{"return", std::exchange(console, "")}};
    if (name == "stop" || name == "cont") {
      if (state == "shutdown") {
        return {
            {"error", {{"class", "GenericError"}, {"desc", "Resetting the Virtual Machine is required"}}}};
      }
      state = name == "stop" ? "paused" : "running";
      return {{"return", JsonObject()}};
    }
    if (std::ranges::find(empty_answer, name) != empty_answer.end()) return {{"return", JsonObject()}};
    return {
        {"error", {{"class", "CommandNotFound"}, {"desc", "The command " + name + " has not been found"}}}};
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
