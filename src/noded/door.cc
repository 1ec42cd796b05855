#include "noded/door.h"

#include <linux/capability.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/ids.h"

namespace space::noded {
namespace {

constexpr Capabilities cap(int number) {
  return Capabilities{1} << number;
}
constexpr unsigned by_sandboxd = static_cast<unsigned>(Client::sandboxd);
constexpr unsigned by_netd = static_cast<unsigned>(Client::netd);
constexpr unsigned by_volumed = static_cast<unsigned>(Client::volumed);

// Deleting a subvolume and making or naming a namespace take CAP_SYS_ADMIN.
constexpr Capabilities subvolumes = cap(CAP_SYS_ADMIN);
constexpr Capabilities copies = subvolumes | cap(CAP_CHOWN);
constexpr Capabilities disks = copies | cap(CAP_DAC_OVERRIDE);
constexpr Capabilities namespaces = cap(CAP_SYS_ADMIN) | cap(CAP_NET_ADMIN);
constexpr Capabilities other_processes = cap(CAP_SYS_PTRACE);
constexpr Capabilities launching =
    namespaces | cap(CAP_DAC_OVERRIDE) | cap(CAP_KILL) | cap(CAP_SETUID) | cap(CAP_SETGID) | cap(CAP_SETPCAP);

constexpr VerbShape on_template(Verb verb, const char* name, Capabilities capabilities) {
  return {.verb = verb, .name = name, .clients = by_sandboxd, .digest = true, .capabilities = capabilities};
}
constexpr VerbShape on_sandbox(Verb verb, const char* name, Capabilities capabilities, unsigned values = 0) {
  return {.verb = verb,
          .name = name,
          .clients = by_sandboxd,
          .sandbox = true,
          .values = values,
          .capabilities = capabilities};
}
constexpr VerbShape with(VerbShape shape, bool VerbShape::* flag) {
  shape.*flag = true;
  return shape;
}
constexpr VerbShape with_descriptors(VerbShape shape, unsigned count) {
  shape.descriptors = count;
  return shape;
}

constexpr VerbShape shapes[] = {
    {.verb = Verb::pool_info, .name = "pool_info", .clients = by_sandboxd | by_volumed, .at_once = true},
    {.verb = Verb::list, .name = "list", .clients = by_sandboxd | by_netd | by_volumed},
    {.verb = Verb::template_open,
     .name = "template_open",
     .clients = by_sandboxd | by_volumed,
     .digest = true,
     .at_once = true},
    on_template(Verb::template_import, "template_import", subvolumes),
    on_template(Verb::template_remove, "template_remove", subvolumes),
    with(on_sandbox(Verb::disk_create, "disk_create", disks, 1), &VerbShape::digest),
    with(on_sandbox(Verb::disk_restore, "disk_restore", copies, 1), &VerbShape::source),
    on_sandbox(Verb::disk_remove, "disk_remove", subvolumes),
    on_sandbox(Verb::slot_create, "slot_create", namespaces, 1),
    on_sandbox(Verb::slot_remove, "slot_remove", namespaces),
    {.verb = Verb::slot_open,
     .name = "slot_open",
     .clients = by_netd,
     .sandbox = true,
     .capabilities = namespaces},
    on_sandbox(Verb::slot_check, "slot_check", namespaces, 1),
    with(with_descriptors(on_sandbox(Verb::vmm_launch, "vmm_launch", launching, launch_value_count), 2),
         &VerbShape::may_source),
    with(on_sandbox(Verb::vmm_open, "vmm_open", 0), &VerbShape::at_once),
    on_sandbox(Verb::vmm_kill, "vmm_kill", cap(CAP_KILL)),
    with(on_sandbox(Verb::vmm_exit, "vmm_exit", 0), &VerbShape::at_once),
    on_sandbox(Verb::vmm_forget, "vmm_forget", cap(CAP_KILL)),
    on_sandbox(Verb::vmm_open_memory, "vmm_open_memory", other_processes),
    on_sandbox(Verb::vmm_isolation, "vmm_isolation", other_processes),
    on_sandbox(Verb::snapshot_begin, "snapshot_begin", copies, 3),
    on_sandbox(Verb::snapshot_finish, "snapshot_finish", 0, 2),
    with(on_sandbox(Verb::snapshot_open, "snapshot_open", 0, 1), &VerbShape::at_once),
    on_sandbox(Verb::snapshot_remove, "snapshot_remove", subvolumes, 1),
};

// The text of a zero-padded field: ends at the first zero, after which only zeros may follow.
Result<std::string> text_of(std::span<const char> field, const char* name) {
  const auto end = std::ranges::find(field, '\0');
  if (end == field.end() || std::any_of(end, field.end(), [](char c) { return c != '\0'; }))
    return fail(Code::invalid_argument, "the field {} is not padded with zeros", name);
  return std::string(field.begin(), end);
}

Result<std::string> admit_text(std::span<const char> field, const char* name, bool wanted,
                               bool (*is_valid)(std::string_view)) {
  SPACE_TRY(std::string text, text_of(field, name));
  if (!wanted && !text.empty()) return fail(Code::invalid_argument, "this verb takes no {}", name);
  if (wanted && !is_valid(text))
    return fail(Code::invalid_argument, "the field {} is not a valid {}", name, name);
  return text;
}

struct Bound {
  Verb verb;
  unsigned index;
  const char* name;
  std::uint64_t min, max;
};
constexpr Bound bounds[] = {
    {Verb::disk_create, 0, "disk size in MiB", disk_mib_min, disk_mib_max},
    {Verb::disk_restore, 0, "number of a snapshot", 1, snapshot_number_max},
    {Verb::slot_create, 0, "network limit in Mbit/s", 0, network_mbit_max},
    {Verb::slot_check, 0, "network limit in Mbit/s", 0, network_mbit_max},
    {Verb::vmm_launch, launch_vcpus, "number of vCPUs", 1, vcpus_max},
    {Verb::vmm_launch, launch_memory_mib, "memory in MiB", memory_mib_min, memory_mib_max},
    {Verb::vmm_launch, launch_accelerator, "accelerator", 0, static_cast<std::uint64_t>(Accelerator::kvm)},
    {Verb::vmm_launch, launch_tsc_khz, "TSC frequency in kHz", 0, tsc_khz_max},
    {Verb::vmm_launch, launch_disk_mib_per_s, "disk limit in MiB/s", 0, disk_mib_per_s_max},
    {Verb::vmm_launch, launch_disk_iops, "disk limit in operations/s", 0, disk_iops_max},
    {Verb::vmm_launch, launch_restore, "restore", 0, 1},
    {Verb::vmm_launch, launch_zero_free_pages, "zeroing of free pages", 0, 1},
    {Verb::vmm_launch, launch_second_disk, "number of a snapshot", 0, snapshot_number_max},
    {Verb::vmm_launch, launch_third_disk, "number of a snapshot", 0, snapshot_number_max},
    {Verb::snapshot_begin, 0, "number of a snapshot", 1, snapshot_number_max},
    {Verb::snapshot_begin, 1, "number of the previous snapshot", 0, snapshot_number_max},
    {Verb::snapshot_begin, 2, "whether it is of the disk only", 0, 1},
    {Verb::snapshot_finish, 0, "number of a snapshot", 1, snapshot_number_max},
    {Verb::snapshot_finish, 1, "whether the VM goes on", 0, 1},
    {Verb::snapshot_open, 0, "number of a snapshot", 1, snapshot_number_max},
    {Verb::snapshot_remove, 0, "number of a snapshot", 1, snapshot_number_max},
};

Result<void> admit_values(const VerbShape& shape, std::span<const std::uint64_t, values_count> values) {
  for (std::size_t i = shape.values; i < values.size(); ++i)
    if (values[i] != 0) return fail(Code::invalid_argument, "{} takes {} values", shape.name, shape.values);
  for (const Bound& bound : bounds) {
    const std::uint64_t value = values[bound.index];
    if (bound.verb == shape.verb && (value < bound.min || value > bound.max))
      return fail(Code::invalid_argument, "{} is {}, must be {} to {}", bound.name, value, bound.min,
                  bound.max);
  }
  return {};
}

// Which members of a request belong together.
Result<void> admit_whole(const Call& call) {
  const auto& values = call.values;
  const bool with_disks = call.source.has_value();
  if (call.verb == Verb::vmm_launch &&
      (with_disks != (values[launch_second_disk] != 0) || with_disks != (values[launch_third_disk] != 0) ||
       (with_disks && values[launch_restore] != 0)))
    return fail(Code::invalid_argument, "a VM that boots has two disks of snapshots of a source, or none");
  if (call.verb == Verb::snapshot_begin && values[1] != 0 && values[2] != 0)
    return fail(Code::invalid_argument, "a snapshot of the disk only starts from no memory");
  return {};
}

}  // namespace

const VerbShape* shape_of(Verb verb) {
  const auto found = std::ranges::find(shapes, verb, &VerbShape::verb);
  return found == std::end(shapes) ? nullptr : found;
}

Capabilities capabilities_of_all_verbs() {
  Capabilities all = 0;
  for (const VerbShape& shape : shapes) all |= shape.capabilities;
  return all;
}

const char* name_of(Client client) {
  switch (client) {
    case Client::sandboxd:
      return "sandboxd";
    case Client::netd:
      return "netd";
    case Client::volumed:
      return "volumed";
  }
  return "?";
}

Result<Call> Gate::admit(std::span<const std::byte> datagram, std::size_t descriptors, Client client) {
  if (datagram.size() != sizeof(Request))
    return fail(Code::invalid_argument, "a request has {} bytes, not {}", sizeof(Request), datagram.size());
  Request request;
  std::memcpy(&request, datagram.data(), sizeof request);
  if (request.protocol != protocol)
    return fail(Code::invalid_argument, "protocol {:#x} is not {:#x}", request.protocol, protocol);
  const VerbShape* shape = shape_of(request.verb);
  if (shape == nullptr)
    return fail(Code::invalid_argument, "there is no verb {}", static_cast<std::uint32_t>(request.verb));
  if ((shape->clients & static_cast<unsigned>(client)) == 0)
    return fail(Code::permission_denied, "{} is not a verb of {}", shape->name, name_of(client));
  if (descriptors != shape->descriptors)
    return fail(Code::invalid_argument, "{} takes {} descriptors, not {}", shape->name, shape->descriptors,
                descriptors);
  Call call{.verb = request.verb, .sequence = request.sequence};
  SPACE_TRY(std::string sandbox, admit_text(request.sandbox, "sandbox", shape->sandbox, is_sandbox_id));
  const bool has_source = shape->source || (shape->may_source && request.source[0] != '\0');
  SPACE_TRY(std::string source, admit_text(request.source, "source", has_source, is_sandbox_id));
  SPACE_TRY(std::string digest, admit_text(request.digest, "digest", shape->digest, is_digest));
  if (shape->sandbox) call.sandbox = priv::SandboxPermit(std::move(sandbox));
  if (has_source) call.source = priv::SandboxPermit(std::move(source));
  if (shape->digest) call.template_ = priv::TemplatePermit(std::move(digest));
  SPACE_CHECK(admit_values(*shape, request.values));
  std::ranges::copy(request.values, call.values.begin());
  SPACE_CHECK(admit_whole(call));
  return call;
}

std::uint64_t sequence_of(std::span<const std::byte> datagram) {
  std::uint64_t sequence = 0;
  constexpr std::size_t offset = offsetof(Request, sequence);
  if (datagram.size() >= offset + sizeof sequence)
    std::memcpy(&sequence, datagram.data() + offset, sizeof sequence);
  return sequence;
}

Reply make_reply(std::uint64_t sequence, const std::array<std::uint64_t, values_count>& values) {
  Reply reply{.protocol = protocol, .status = 0, .sequence = sequence};
  std::ranges::copy(values, reply.values);
  return reply;
}

Reply make_reply(std::uint64_t sequence, const Error& error) {
  Reply reply{
      .protocol = protocol, .status = 1 + static_cast<std::uint32_t>(error.code), .sequence = sequence};
  std::string_view text = error.message;
  if (text.size() >= sizeof reply.message) {
    text = text.substr(0, sizeof reply.message - 1);
    const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
    while (!text.empty() && is_continuation(error.message[text.size()])) text.remove_suffix(1);
  }
  std::ranges::copy(text, reply.message);
  return reply;
}

}  // namespace space::noded
