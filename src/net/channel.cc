#include "net/channel.h"

#include <algorithm>
#include <concepts>
#include <utility>

#include "base/crc32.h"
#include "base/ids.h"
#include "net/http_io.h"

namespace space::channel {
namespace {

constexpr std::size_t magic_bytes = 8;
constexpr std::size_t read_bytes = 16 * 1024;
constexpr Millis resend_after{100};

template <std::integral T>
void put(Bytes& out, T value) {
  for (std::size_t shift = 8 * sizeof(T); shift > 0; shift -= 8)
    out.push_back(static_cast<std::byte>(static_cast<std::make_unsigned_t<T>>(value) >> (shift - 8)));
}
void put(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Takes fields off the front of a message whose size was checked.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::integral T>
  T number() {
    std::make_unsigned_t<T> value = 0;
    for (const std::byte b : take(sizeof(T)))
      value = static_cast<std::make_unsigned_t<T>>(value << 8 | static_cast<std::uint8_t>(b));
    return static_cast<T>(value);
  }
  void copy(std::span<std::byte> into) { std::ranges::copy(take(into.size()), into.begin()); }
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  bool all_zero() const {
    return std::ranges::all_of(bytes_, [](std::byte b) { return b == std::byte{0}; });
  }

 private:
  std::span<const std::byte> bytes_;
};

// Size, magic and parser of each message. `parse` gets exactly `size` bytes that start with the magic.
template <class Message>
struct Wire;

template <>
struct Wire<Sync> {
  static constexpr std::string_view magic = "SPACESYN";
  static constexpr std::size_t size = 118;

  static std::optional<Sync> parse(std::span<const std::byte> bytes) {
    constexpr std::size_t checked = size - 10;
    Reader reader(bytes);
    Sync sync;
    reader.take(magic_bytes);
    sync.version_lowest = reader.number<std::uint16_t>();
    sync.version_highest = reader.number<std::uint16_t>();
    sync.epoch = reader.number<std::uint64_t>();
    reader.copy(sync.nonce);
    sync.wall_clock_us = reader.number<std::int64_t>();
    reader.copy(sync.entropy);
    if (reader.number<std::uint32_t>() != crc32(bytes.first(checked)) || !reader.all_zero())
      return std::nullopt;
    return sync;
  }
};

template <>
struct Wire<SyncAck> {
  static constexpr std::string_view magic = "SPACEACK";
  static constexpr std::size_t size = 32;

  static std::optional<SyncAck> parse(std::span<const std::byte> bytes) {
    constexpr std::size_t checked = size - 4;
    Reader reader(bytes);
    SyncAck ack;
    reader.take(magic_bytes);
    ack.version = reader.number<std::uint16_t>();
    reader.copy(ack.nonce);
    if (reader.number<std::uint16_t>() != 0) return std::nullopt;
    if (reader.number<std::uint32_t>() != crc32(bytes.first(checked))) return std::nullopt;
    return ack;
  }
};

// Reads on into `bytes`. The end of the stream is an error here.
Task<Result<void>> read_more(Stream& transport, Bytes& bytes) {
  const std::size_t before = bytes.size();
  bytes.resize(before + read_bytes);
  auto count = co_await transport.read(std::span(bytes).subspan(before));
  bytes.resize(before + count.value_or(0));
  if (!count) co_return std::unexpected(std::move(count).error());
  if (*count == 0) co_return fail(Code::unavailable, "the channel was closed");
  co_return Result<void>();
}

// The answer to `nonce`, if it came within `deadline`; the stream's next bytes are then in `scanner`.
Task<Result<std::optional<SyncAck>>> await_ack(Stream& transport, Scanner<SyncAck>& scanner, Sync sync,
                                               Deadline deadline) {
  while (!deadline.passed()) {
    Bytes bytes;
    auto read = co_await with_deadline(read_more(transport, bytes), deadline, "read");
    if (!read && read.error().code == Code::deadline) break;
    if (!read) co_return std::unexpected(std::move(read).error());
    SPACE_CO_TRY(auto ack, scanner.feed(bytes));
    while (ack && ack->nonce != sync.nonce) {  // the answer to an earlier one
      SPACE_CO_TRY(ack, scanner.feed({}));
    }
    if (ack) co_return ack;
  }
  co_return std::nullopt;
}

}  // namespace

Bytes encode(const Sync& sync) {
  Bytes out;
  put(out, as_bytes(Wire<Sync>::magic));
  put(out, sync.version_lowest);
  put(out, sync.version_highest);
  put(out, sync.epoch);
  put(out, sync.nonce);
  put(out, sync.wall_clock_us);
  put(out, sync.entropy);
  put(out, crc32(out));
  out.resize(Wire<Sync>::size);
  return out;
}

Bytes encode(const SyncAck& ack) {
  Bytes out;
  put(out, as_bytes(Wire<SyncAck>::magic));
  put(out, ack.version);
  put(out, ack.nonce);
  put(out, std::uint16_t{0});
  put(out, crc32(out));
  return out;
}

template <class Message>
Result<std::optional<Message>> Scanner<Message>::feed(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  const auto magic = as_bytes(Wire<Message>::magic);
  std::size_t at = 0;  // everything before is stale
  std::optional<Message> found;
  while (!found && at < buffer_.size()) {
    const auto left = std::span<const std::byte>(buffer_).subspan(at);
    if (!std::ranges::equal(left.first(std::min(left.size(), magic.size())),
                            magic.first(std::min(left.size(), magic.size())))) {
      const auto next = std::ranges::find(left.subspan(1), magic[0]);
      at += 1 + static_cast<std::size_t>(next - left.subspan(1).begin());
      continue;
    }
    if (left.size() < Wire<Message>::size) break;
    found = Wire<Message>::parse(left.first(Wire<Message>::size));
    if (!found) ++at;
  }
  dropped_ += at;
  if (found) at += Wire<Message>::size;
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at));
  if (dropped_ > stale_limit_) return fail(Code::exhausted, "no SYNC message in {} bytes", dropped_);
  return found;
}

template class Scanner<Sync>;
template class Scanner<SyncAck>;

Task<Result<StreamPtr>> attach(StreamPtr transport, Sync sync, Deadline deadline) {
  Scanner<SyncAck> scanner;
  const auto clock_offset =
      std::chrono::microseconds(sync.wall_clock_us) - system_clock().monotonic().time_since_epoch();
  while (!deadline.passed()) {
    fill_random(sync.nonce);
    const auto now = system_clock().monotonic().time_since_epoch() + clock_offset;
    sync.wall_clock_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    const Bytes message = encode(sync);
    SPACE_CO_CHECK(co_await with_deadline(transport->write(message), deadline, "sending SYNC"));
    SPACE_CO_TRY(const auto ack,
                 co_await await_ack(*transport, scanner, sync, deadline.at_most(resend_after)));
    if (!ack) continue;
    if (ack->version < sync.version_lowest || ack->version > sync.version_highest)
      co_return fail(Code::conflict, "the guest chose channel version {}, the host speaks {} to {}",
                     ack->version, sync.version_lowest, sync.version_highest);
    co_return http::with_prefix(std::move(transport), scanner.take_rest());
  }
  co_return fail(Code::deadline, "the guest did not answer SYNC in time");
}

}  // namespace space::channel
