#include "cli/fake_sandbox.h"

#include "net/connect.h"

namespace space::cli {

namespace {

Bytes event(JsonObject event) {
  return connect::envelope(0, to_text(JsonObject{{"event", std::move(event)}}));
}

std::string parent(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

}  // namespace

FakeSandbox::FakeSandbox(const Executor& executor)
    : executor_(executor), listener_(*listen_tcp(executor, "127.0.0.1", 0)) {
  spawn(executor, "fake sandbox", accept_all(listener_));
}

FakeSandbox::~FakeSandbox() {
  listener_->close();
}

ApiClient FakeSandbox::client() const {
  return ApiClient(Settings{.host = "127.0.0.1", .port = listener_->port(), .api_key = SecretText("key")});
}

Task<Result<Target>> FakeSandbox::target() const {
  const ApiClient api = client();
  co_return co_await api.connect_sandbox(id);
}

void FakeSandbox::print(std::string text) {
  for (const Connection& stream : streams_)
    spawn(executor_, "print", [](Connection to, std::string bytes) -> Task<void> {
      (void)co_await to->write_body(event({{"data", JsonObject{{"pty", to_base64(as_bytes(bytes))}}}}));
    }(stream, text));
}

void FakeSandbox::end_program(int code) {
  for (const Connection& stream : std::exchange(streams_, {}))
    spawn(executor_, "end", [](Connection to, int exit_code) -> Task<void> {
      Bytes last = event({{"end", JsonObject{{"exitCode", exit_code}, {"exited", true}}}});
      const Bytes trailer = connect::end_of_stream();
      last.insert(last.end(), trailer.begin(), trailer.end());
      (void)co_await to->end_response(last);
    }(stream, code));
}

void FakeSandbox::cut_streams() {
  for (const Connection& stream : std::exchange(streams_, {})) stream->abort();
}

Task<void> FakeSandbox::accept_all(std::shared_ptr<Listener> listener) {
  while (true) {
    auto stream = co_await listener->accept();
    if (!stream) co_return;
    spawn(executor_, "fake connection", serve(std::make_shared<http::ServerConnection>(*std::move(stream))));
  }
}

Task<void> FakeSandbox::serve(Connection connection) {
  while (true) {
    auto head = co_await connection->read_request(Deadline::after(Millis(60'000)));
    if (!head || !*head) co_return;
    if (!co_await answer(connection, **std::move(head))) co_return;
  }
}

Task<bool> FakeSandbox::reply(Connection connection, int status, Json body) {
  http::ResponseHead head;
  head.status = status;
  co_return (co_await connection->respond(std::move(head), to_text(body))).has_value();
}

Task<bool> FakeSandbox::answer_api(Connection connection, http::RequestHead head) {
  const auto body = co_await http::read_all(connection->body(), 1024 * 1024);
  const std::string call = head.method + " " + head.target;
  asked.push_back(call + (body && !body->empty() ? " " + *body : ""));
  if (const auto found = answers.find(call); found != answers.end())
    co_return co_await reply(connection, found->second.first, found->second.second);
  if (gone) co_return co_await reply(connection, 404, JsonObject{{"message", "it was killed"}});
  if (head.method == "GET" && head.path().starts_with("/sandboxes/"))
    co_return co_await reply(connection, 200,
                             JsonObject{{"sandboxID", id}, {"state", paused ? "paused" : "running"}});
  if (head.method == "GET") {
    JsonArray list;
    for (const std::string& one : ids) list.push_back(JsonObject{{"sandboxID", one}});
    co_return co_await reply(connection, 200, std::move(list));
  }
  connected_with = body ? parse_json_object(*body, "request").value_or(JsonObject()) : JsonObject();
  paused = false;
  co_return co_await reply(connection, 201, JsonObject{{"sandboxID", id}, {"envdAccessToken", "token"}});
}

Task<bool> FakeSandbox::answer(Connection connection, http::RequestHead head) {
  if (!head.fields.get("E2b-Sandbox-Id")) co_return co_await answer_api(connection, std::move(head));
  const std::string path = http::query_value(head.query(), "path").value_or("");
  if (head.path() == "/files" && head.method == "GET")
    co_return co_await download(connection, std::move(head), path);
  if (head.path() == "/files") co_return co_await upload(connection, path);
  const auto body = co_await http::read_all(connection->body(), 16 * 1024 * 1024);
  if (!body) co_return false;
  const std::string procedure(head.path());
  requests.push_back(procedure);
  if (procedure.ends_with("Process/Start") || procedure.ends_with("Process/Connect")) {
    const auto request = parse_json_object(body->substr(5), "request");
    if (procedure.ends_with("Start")) {
      const JsonObject& process = request->at("process").as_object();
      started.push_back({std::string(process.at("cmd").as_string())});
      for (const Json& arg : process.at("args").as_array()) started.back().emplace_back(arg.as_string());
    }
    co_return co_await stream(connection, procedure.ends_with("Start"));
  }
  auto request = parse_json_object(*body, "request");
  co_return co_await call(connection, procedure, request.value_or(JsonObject()));
}

Task<bool> FakeSandbox::download(Connection connection, http::RequestHead head, std::string path) {
  const std::string range(head.fields.get("Range").value_or("bytes=0-"));
  const std::size_t first = std::stoul(range.substr(6));
  requests.push_back(fmt::format("GET {} {}-", path, first));
  const auto found = files.find(path);
  if (found == files.end()) co_return co_await reply(connection, 404, JsonObject{{"message", "no file"}});
  const std::string content = found->second.content.substr(first);
  http::ResponseHead answer;
  answer.status = first > 0 ? 206 : 200;
  answer.content_length = content.size();
  if (first > 0)
    answer.fields.add("Content-Range", fmt::format("bytes {}-{}/{}", first, found->second.content.size() - 1,
                                                   found->second.content.size()));
  (void)co_await connection->start_response(std::move(answer));
  (void)co_await connection->write_body(as_bytes(std::string_view(content).substr(0, cut_download_after)));
  if (content.size() > cut_download_after) {
    co_await sleep_for(Millis(20));  // what was written arrives before the reset
    connection->abort();
    co_return false;
  }
  co_return (co_await connection->end_response()).has_value();
}

Task<bool> FakeSandbox::upload(Connection connection, std::string path) {
  requests.push_back("POST " + path);
  std::string& content = (files[path] = File()).content;
  std::vector<std::byte> piece(16 * 1024);
  while (true) {
    const auto n = co_await connection->body().read(piece);
    if (!n) co_return false;
    if (*n == 0) break;
    content += as_text(std::span(piece).first(*n));
    if (content.size() > cut_upload_after) {
      content.resize(cut_upload_after);
      connection->abort();
      co_return false;
    }
  }
  co_return co_await reply(connection, 200, JsonArray{JsonObject{{"path", path}}});
}

// Programs that the client runs by itself (ln, chmod) end at once; the others are the test's.
Task<bool> FakeSandbox::stream(Connection connection, bool start) {
  if (refuse_streams) {
    connection->abort();
    co_return false;
  }
  if (!start) ++connects;
  (void)co_await connection->start_response({.status = 200});
  (void)co_await connection->write_body(event({{"start", JsonObject{{"pid", 7}}}}));
  streams_.insert(connection);
  if (start && (started.back()[0] == "ln" || started.back()[0] == "chmod")) end_program(0);
  while (streams_.contains(connection)) co_await sleep_for(Millis(5));
  co_return true;
}

Task<bool> FakeSandbox::call(Connection connection, std::string method, JsonObject request) {
  if (method.ends_with("/SendInput")) {
    const auto bytes = from_base64(request["input"].as_object().begin()->value().as_string());
    input += as_text(*bytes);
    if (std::exchange(lose_input_answer, false)) {
      connection->abort();
      co_return false;
    }
    co_return co_await reply(connection, 200, JsonObject());
  }
  if (method.ends_with("/Update")) ++resizes;
  if (method.starts_with("/process.")) co_return co_await reply(connection, 200, JsonObject());
  if (method == "/files/compose") {
    std::string whole;
    for (const Json& part : request["source_paths"].as_array()) {
      whole += files[std::string(part.as_string())].content;
      files.erase(std::string(part.as_string()));
    }
    files[std::string(request["destination"].as_string())] = {.content = whole};
    co_return co_await reply(connection, 200, JsonObject());
  }
  co_return co_await file_call(connection, method.substr(method.rfind('/') + 1), std::move(request));
}

Json FakeSandbox::entry_json(const std::string& path) const {
  const File& file = files.at(path);
  JsonObject entry{
      {"name", path.substr(path.rfind('/') + 1)},    {"path", path},      {"type", file.type},
      {"size", std::to_string(file.content.size())}, {"mode", file.mode}, {"modifiedTime", file.modified}};
  if (!file.link.empty()) entry["symlinkTarget"] = file.link;
  return entry;
}

Task<bool> FakeSandbox::file_call(Connection connection, std::string method, JsonObject request) {
  const auto text = [&](const char* key) {
    const Json* value = request.if_contains(key);
    return value == nullptr ? std::string() : std::string(value->as_string());
  };
  const std::string path = text("path");
  if (method == "Move") {
    files[text("destination")] = files[text("source")];
    files.erase(text("source"));
    co_return co_await reply(connection, 200, JsonObject());
  }
  if (method == "MakeDir") {
    if (files.contains(path)) co_return co_await reply(connection, 409, JsonObject{{"message", "exists"}});
    add_folder(path);
    co_return co_await reply(connection, 200, JsonObject());
  }
  if (method == "ListDir" && listings.contains(path))
    co_return co_await reply(connection, 200, JsonObject{{"entries", listings[path]}});
  if (!files.contains(path)) co_return co_await reply(connection, 404, JsonObject{{"message", "no file"}});
  if (method == "Stat") co_return co_await reply(connection, 200, JsonObject{{"entry", entry_json(path)}});
  JsonArray entries;
  for (const auto& [name, file] : files)
    if (name != path && parent(name) == path) entries.push_back(entry_json(name));
  co_return co_await reply(connection, 200, JsonObject{{"entries", std::move(entries)}});
}

}  // namespace space::cli
