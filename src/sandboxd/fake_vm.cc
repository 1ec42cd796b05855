#include "sandboxd/fake_vm.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "net/channel.h"
#include "sandboxd/race.h"
#include "vmm/receiving_stream.h"

namespace space {
namespace asio = boost::asio;

namespace {

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
      if (!vm || !vm->silent || !vm->running()) break;
      co_await sleep_for(Millis(1));
    }
  }
  StreamPtr inner_;
  std::weak_ptr<FakeVm> vm_;  // the VM owns the session that owns this
};

}  // namespace

std::shared_ptr<FakeVm> FakeVm::launch(const Executor& executor, Fd qmp, Fd channel, Behaviour behaviour) {
  std::shared_ptr<FakeVm> vm(new FakeVm(executor, std::move(behaviour)));
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
  if (name == "identity") identity = body.value();
  if (name == "init") init = body.value();
  if (name == "stats") co_return CallResponse{200, stats};
  co_return CallResponse{200, "{}"};
}

}  // namespace space
