#include "sandboxd/daemon_program.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/sha256.h"
#include "core/version.h"
#include "sandboxd/faults.h"

namespace space {
namespace {

constexpr std::size_t program_limit_bytes = std::size_t{16} << 20;
constexpr std::size_t piece_bytes = std::size_t{384} << 10;  // a control body holds 512 KiB of base64

}  // namespace

Result<DaemonProgram> DaemonProgram::load(const std::string& path, std::string version) {
  DaemonProgram daemon;
  SPACE_TRY(daemon.program_, read_file(path, program_limit_bytes));
  daemon.version_ = std::move(version);
  daemon.sha256_ = sha256_hex(daemon.program_);
  return daemon;
}

Task<Result<void>> DaemonProgram::replace_older(std::shared_ptr<Machine> machine, std::string running,
                                                Deadline deadline) const {
  if (!is_newer(version_, running) && !is_on(Fault::old_daemon)) co_return Result<void>();
  log::info("daemon of a guest is older", {{"running", running}, {"replaced_by", version_}});
  const auto old_session = machine->channel()->session();
  for (std::size_t at = 0; at < program_.size(); at += piece_bytes) {
    const std::string_view piece = std::string_view(program_).substr(at, piece_bytes);
    JsonObject body{
        {"sha256", sha256_}, {"size", program_.size()}, {"offset", at}, {"data", to_base64(as_bytes(piece))}};
    SPACE_CO_CHECK(co_await machine->channel()->control("upgrade", std::move(body), deadline));
  }
  // The old one hangs up before the new one can answer.
  while (old_session && !old_session->closed()) {
    if (deadline.passed()) co_return fail(Code::deadline, "the guest's old daemon does not go");
    co_await sleep_for(Millis(5));
  }
  co_return co_await machine->reattach(deadline);
}

}  // namespace space
