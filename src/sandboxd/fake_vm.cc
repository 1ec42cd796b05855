#include "sandboxd/fake_vm.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/bytes.h"
#include "net/channel_acceptor.h"
#include "sandboxd/race.h"
#include "vmm/receiving_stream.h"

namespace space {
namespace asio = boost::asio;

namespace {

constexpr std::uint64_t small_memory_bytes = 1 << 20;

// After its answer has gone out.
Task<void> power_off(std::shared_ptr<FakeVm> vm) {
  co_await sleep_for(Millis(5));
  vm->die(0);
}

class MutedStream final : public Stream {
 public:
  MutedStream(StreamPtr inner, std::weak_ptr<FakeVm> vm) : inner_(std::move(inner)), vm_(std::move(vm)) {}
  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    auto n = co_await inner_->read(into);
    co_await until_heard();
    co_return n;
  }
  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    co_await until_heard();
    co_return co_await inner_->write(bytes);
  }
  Task<Result<void>> finish() override { return inner_->finish(); }
  void reset() noexcept override { inner_->reset(); }

 private:
  Task<void> until_heard() {
    while (true) {
      const auto vm = vm_.lock();
      if (!vm || !vm->running() || (!vm->silent && !vm->stands_still())) break;
      co_await sleep_for(Millis(1));
    }
  }
  StreamPtr inner_;
  std::weak_ptr<FakeVm> vm_;  // the VM owns the session that owns this
};

}  // namespace

std::shared_ptr<FakeVm> FakeVm::launch(const Executor& executor, Fd qmp, Fd channel, Behaviour behaviour,
                                       std::unique_ptr<FakeMemory> memory, bool incoming) {
  std::shared_ptr<FakeVm> vm(new FakeVm(executor, std::move(behaviour)));
  if (!memory) memory = std::make_unique<FakeMemory>(make_zeros(small_memory_bytes), small_memory_bytes);
  vm->memory_ = std::move(memory);
  if (incoming) {
    vm->qemu_.state = "inmigrate";
    vm->recall();
  }
  spawn(executor, "fake QMP", vm->serve_qmp(std::move(qmp)));
  spawn(executor, "fake guest", vm->serve_channel(std::move(channel)));
  return vm;
}

FakeVm::FakeVm(const Executor& executor, Behaviour behaviour)
    : executor_(executor),
      behaviour_(std::move(behaviour)),
      death_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      died_(executor) {}

void FakeVm::die(int signal) {
  if (!std::exchange(running_, false)) return;
  signal_ = signal;
  ::eventfd_write(death_.get(), 1);
  if (session_) session_->close("the VM died");
  died_.notify_all();
}

Fd FakeVm::pidfd() const {
  return Fd(::fcntl(death_.get(), F_DUPFD_CLOEXEC, 0));
}

// Empty: the VM died.
Task<Fd> FakeVm::accept(int listener) {
  Fd fd;
  while (running_ && !fd) {
    fd = Fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) co_await sleep_for(Millis(1));
  }
  co_return fd;
}

Task<void> FakeVm::serve_qmp(Fd listener) {
  const auto self = shared_from_this();
  ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  while (Fd connection = co_await accept(listener.get()))
    co_await race(
        [](vmm::FakeQemu& qemu, StreamPtr s) -> Task<int> {
          co_await vmm::FakeQemu::serve(qemu, std::move(s));
          co_return 0;
        }(qemu_, std::make_unique<vmm::ReceivingStream>(executor_, std::move(connection))),
        died_);
}

Task<void> FakeVm::serve_channel(Fd listener) {
  const auto self = shared_from_this();
  ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  while (Fd connection = co_await accept(listener.get()))
    co_await race(
        [](FakeVm& vm, StreamPtr s) -> Task<int> {
          co_await vm.serve_guest(std::move(s));
          co_return 0;
        }(*this, make_stream(executor_, std::move(connection))),
        died_);
}

Task<void> FakeVm::serve_guest(StreamPtr transport) {
  if (behaviour_.answers_garbage) {
    const std::string garbage(4096, '\xff');
    while (co_await transport->write(as_bytes(garbage))) {
    }
    co_return;
  }
  if (!behaviour_.boots) {
    co_await sleep_for(std::chrono::hours(1));
    co_return;
  }
  transport = std::make_unique<MutedStream>(std::move(transport), weak_from_this());
  auto attached = co_await channel::accept(std::move(transport),
                                           [this](const channel::Sync& sync) { last_epoch = sync.epoch; });
  if (!attached) co_return;
  ++attaches;
  H2Handlers handlers;
  handlers.call = [this](CallRequest request) { return control(std::move(request)); };
  handlers.connect = [](std::string authority) -> Task<Result<H2Handlers::Tunnel>> {
    if (authority != "localhost:49983") co_return fail(Code::unavailable, "connection refused");
    co_return [](StreamPtr stream) -> Task<void> {  // echoes
      std::byte buffer[4096];
      while (true) {
        const auto n = co_await stream->read(buffer);
        if (!n || *n == 0 || !co_await stream->write(std::span(buffer).first(*n))) break;
      }
      co_await stream->finish();
    };
  };
  session_ = H2Session::server(*std::move(attached), std::move(handlers));
  co_await session_->run();
}

Task<CallResponse> FakeVm::control(CallRequest request) {
  const auto self = shared_from_this();
  const std::string name = request.path.substr(std::string_view("/control/").size());
  calls.push_back(name);
  if (name == behaviour_.refuses) co_return CallResponse{400, R"({"message":"the guest refuses"})"};
  if (name == behaviour_.dies_during) {
    die(9);
    co_await sleep_for(std::chrono::hours(1));
  }
  const auto body = parse_json_object(request.body, "body");
  if (name == "stats") co_return CallResponse{200, stats};
  if (name == "activity") co_return CallResponse{200, activity};
  CallResponse answer = obey(name, body ? *body : JsonObject());
  remember();
  if (name == "shutdown") spawn(executor_, "fake power off", power_off(self));
  co_return answer;
}

CallResponse FakeVm::obey(const std::string& name, const JsonObject& body) {
  const auto is_set = [&](const char* member) {
    const auto* value = body.if_contains(member);
    return value != nullptr && value->is_bool() && value->as_bool();
  };
  if (name == "identity") take_identity(body);
  if (name == "init") init = body;
  if (name == "thaw") frozen = false;
  if (name == "warm")
    return frozen ? CallResponse{409, R"({"message":"frozen"})"} : CallResponse{200, R"({"ran":["sdk"]})"};
  if (name == "diff") return {200, behaviour_.diff};
  if (name == "freeze_disk") {
    disk_frozen = !behaviour_.disk_never_freezes;
    return {200, to_text(JsonObject{{"frozen", disk_frozen}})};
  }
  if (name == "thaw_disk") {
    const bool held = std::exchange(disk_frozen, false) && !behaviour_.disk_thaws_early;
    return {200, to_text(JsonObject{{"held", held}})};
  }
  if (name == "quiesce") {
    disk_frozen = false;
    frozen = !behaviour_.never_freezes;
    return {200, to_text(JsonObject{{"frozen", frozen}, {"synced", is_set("sync")}})};
  }
  if (name == "wake") {
    wakes.push_back(body);
    take_identity(body);
    if (const auto* given = body.if_contains("init")) init = given->as_object();
    if (const auto* number = body.if_contains("generation")) generation = number->to_number<std::int64_t>();
    if (is_set("thaw")) frozen = false;
    return {200, R"({"stepped_us":0,"hooks":[],"daemon_version":"fake"})"};
  }
  if (name == "upgrade") return take_program(body);
  return {200, "{}"};
}

// The last piece is answered; then the old daemon hangs up, and the new one waits to be attached.
CallResponse FakeVm::take_program(const JsonObject& body) {
  const auto piece = from_base64(body.at("data").as_string());
  if (!piece || body.at("offset").to_number<std::size_t>() != program.size()) return {400, "{}"};
  program += as_text(*piece);
  if (program.size() == body.at("size").to_number<std::size_t>()) spawn(executor_, "fake exec", hang_up());
  return {200, "{}"};
}

Task<void> FakeVm::hang_up() {
  const auto self = shared_from_this();
  co_await sleep_for(Millis(20));
  if (session_) session_->close("exec");
}

void FakeVm::take_identity(const JsonObject& body) {
  if (body.contains("sandbox_id") && body.contains("hostname"))
    identity = {{"sandbox_id", body.at("sandbox_id")}, {"hostname", body.at("hostname")}};
}

void FakeVm::remember() {
  const std::string text = to_text(
      JsonObject{{"identity", identity}, {"init", init}, {"frozen", frozen}, {"generation", generation}});
  const auto page = memory_->bytes().first(4096);
  std::ranges::fill(page, std::byte{0});
  std::ranges::copy(as_bytes(std::string_view(text)).first(std::min(text.size(), page.size() - 1)),
                    page.begin());
}

void FakeVm::recall() {
  const auto page = as_text(memory_->bytes().first(4096));
  const auto known = parse_json_object(page.substr(0, page.find('\0')), "guest memory");
  if (!known) return;
  identity = known->at("identity").as_object();
  init = known->at("init").as_object();
  frozen = known->at("frozen").as_bool();
  generation = known->at("generation").to_number<std::int64_t>();
}

}  // namespace space
