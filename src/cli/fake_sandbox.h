// FakeSandbox: an API and a guest daemon in memory for tests, behind a real port: files, one program, and the
// faults that clients must survive.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/api_client.h"

namespace space::cli {

class FakeSandbox {
 public:
  explicit FakeSandbox(const Executor& executor);
  ~FakeSandbox();

  static constexpr const char* id = "i0123456789abcdefghi";
  ApiClient client() const;
  Task<Result<Target>> target() const;

  struct File {
    std::string content;
    std::string type = "FILE_TYPE_FILE";
    std::string link;  // resolved target
    unsigned mode = 0644;
    std::string modified = "2026-01-02T03:04:05.5Z";
  };
  std::map<std::string, File> files;              // by absolute path
  std::map<std::string, JsonArray> listings;      // what ListDir says instead of the truth
  std::vector<std::vector<std::string>> started;  // programs
  std::vector<std::string> requests;              // "GET /files 5-": method, path, first byte wanted
  std::vector<std::string> ids{id};               // sandboxes the API lists

  // Faults.
  std::size_t cut_upload_after = SIZE_MAX;    // bytes of a body; what came is kept
  std::size_t cut_download_after = SIZE_MAX;  // bytes of an answer
  bool lose_input_answer = false;             // input arrives, its answer does not; once
  bool refuse_streams = false;                // Start and Connect are cut before an answer
  bool gone = false;                          // the API does not know the sandbox
  bool paused = false;                        // until it is connected to
  JsonObject connected_with;                  // the last connect
  // What the API says to "POST /v1/…" instead, with a status; and everything it was asked, bodies included.
  std::map<std::string, std::pair<int, Json>> answers;
  std::vector<std::string> asked;

  // The one program: what its streams get, and what came in.
  std::string input;
  int connects = 0;
  int resizes = 0;
  void print(std::string text);
  void end_program(int code);
  void cut_streams();
  std::size_t open_streams() const { return streams_.size(); }

  void add_folder(const std::string& path) {
    files[path] = {.content = "", .type = "FILE_TYPE_DIRECTORY", .mode = 0755};
  }

 private:
  using Connection = std::shared_ptr<http::ServerConnection>;
  Task<void> accept_all(std::shared_ptr<Listener> listener);
  Task<void> serve(Connection connection);
  Task<bool> answer(Connection connection, http::RequestHead head);
  Task<bool> answer_api(Connection connection, http::RequestHead head);
  Task<bool> download(Connection connection, http::RequestHead head, std::string path);
  Task<bool> upload(Connection connection, std::string path);
  Task<bool> stream(Connection connection, bool start);
  Task<bool> call(Connection connection, std::string method, JsonObject request);
  Task<bool> file_call(Connection connection, std::string method, JsonObject request);
  Task<bool> reply(Connection connection, int status, Json body);
  Json entry_json(const std::string& path) const;

  Executor executor_;
  std::shared_ptr<Listener> listener_;
  std::set<Connection> streams_;
};

}  // namespace space::cli
