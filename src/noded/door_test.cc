#include "noded/door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>

#include <algorithm>
#include <cstring>

#include "priv/disk.h"
#include "priv/template.h"
#include "priv/vmm.h"

namespace space::noded {
namespace {

const std::string sandbox = "i0123456789abcdefghi";
const std::string source = "isourceofarestoredxx";
const std::string digest(64, 'a');

constexpr Verb all_verbs[] = {Verb::pool_info,       Verb::list,
                              Verb::template_import, Verb::template_open,
                              Verb::template_remove, Verb::disk_create,
                              Verb::disk_remove,     Verb::slot_create,
                              Verb::slot_remove,     Verb::vmm_launch,
                              Verb::vmm_open,        Verb::vmm_kill,
                              Verb::vmm_exit,        Verb::vmm_forget,
                              Verb::vmm_open_memory, Verb::vmm_isolation,
                              Verb::snapshot_begin,  Verb::snapshot_finish,
                              Verb::snapshot_open,   Verb::snapshot_remove,
                              Verb::disk_restore,    Verb::slot_open,
                              Verb::slot_check};

template <std::size_t size>
void put(char (&field)[size], std::string_view text) {
  std::ranges::fill(field, '\0');
  text.copy(field, size);
}

// A request that the door admits.
Request valid(Verb verb) {
  Request request{.protocol = protocol, .verb = verb, .sequence = 7};
  const VerbShape* shape = shape_of(verb);
  if (shape->sandbox) put(request.sandbox, sandbox);
  if (shape->source) put(request.source, source);
  if (shape->digest) put(request.digest, digest);
  if (std::string_view(shape->name).starts_with("snapshot") || verb == Verb::disk_restore)
    request.values[0] = 1;
  if (verb == Verb::disk_create) request.values[0] = 4096;
  if (verb == Verb::vmm_launch) {
    request.values[launch_vcpus] = 1;
    request.values[launch_memory_mib] = 512;
    request.values[launch_tsc_khz] = 2'600'000;
  }
  return request;
}

Client user_of(Verb verb) {
  return verb == Verb::slot_open ? Client::netd : Client::sandboxd;
}

Result<Call> admitted(const Request& request, std::optional<Client> as = std::nullopt) {
  const Client client = as.value_or(user_of(request.verb));
  return Gate::admit(std::as_bytes(std::span(&request, 1)),
                     shape_of(request.verb) ? shape_of(request.verb)->descriptors : 0, client);
}

std::string refusal(const Request& request) {
  const auto call = admitted(request);
  return call ? "admitted" : call.error().message;
}

TEST(Door, AdmitsAValidRequestOfEveryVerb) {
  for (const Verb verb : all_verbs) {
    const auto call = admitted(valid(verb));
    ASSERT_TRUE(call) << call.error().message;
    EXPECT_EQ(call->verb, verb);
    EXPECT_EQ(call->sequence, 7U);
    EXPECT_EQ(call->sandbox.has_value(), shape_of(verb)->sandbox);
    EXPECT_EQ(call->source.has_value(), shape_of(verb)->source);
    EXPECT_EQ(call->template_.has_value(), shape_of(verb)->digest);
    if (call->sandbox) EXPECT_EQ(call->sandbox->id(), sandbox);
    if (call->source) EXPECT_EQ(call->source->id(), source);
    if (call->template_) EXPECT_EQ(call->template_->digest(), digest);
  }
}

TEST(Door, EachDaemonHasItsOwnVerbs) {
  const auto verbs_of = [](Client client) {
    std::vector<Verb> verbs;
    for (const Verb verb : all_verbs) {
      const auto call = admitted(valid(verb), client);
      if (call)
        verbs.push_back(verb);
      else
        EXPECT_EQ(call.error().code, Code::permission_denied) << call.error().message;
    }
    return verbs;
  };
  EXPECT_EQ(verbs_of(Client::sandboxd).size(), std::size(all_verbs) - 1) << "all but slot_open";
  EXPECT_THAT(verbs_of(Client::netd), testing::ElementsAre(Verb::list, Verb::slot_open));
  EXPECT_THAT(verbs_of(Client::volumed),
              testing::ElementsAre(Verb::pool_info, Verb::list, Verb::template_open));
}

// What acts on a sandbox takes a permit, and a permit comes from the gate: a name does not compile.
template <class Name>
concept RemovesDisk = requires(const priv::Pool& pool, const Name& name) { priv::remove_disk(pool, name); };
template <class Name>
concept ForgetsVmm = requires(const priv::Layout& layout, const priv::Cgroups& groups, const Name& name) {
  priv::forget_vmm(layout, groups, name);
};
template <class Name>
concept ImportsTemplate = requires(const priv::Layout& layout, const priv::Pool& pool, const Name& name) {
  priv::import_template(layout, pool, name);
};
static_assert(RemovesDisk<priv::SandboxPermit> && !RemovesDisk<std::string> &&
              !RemovesDisk<priv::TemplatePermit>);
static_assert(ForgetsVmm<priv::SandboxPermit> && !ForgetsVmm<std::string>);
static_assert(ImportsTemplate<priv::TemplatePermit> && !ImportsTemplate<std::string>);
static_assert(!std::is_constructible_v<priv::SandboxPermit, std::string>);
static_assert(!std::is_default_constructible_v<priv::SandboxPermit>);
static_assert(!std::is_constructible_v<priv::TemplatePermit, std::string>);

TEST(Door, NoWorkerHasMorePowerThanItsVerbNeeds) {
  for (const Verb verb : all_verbs) {
    const VerbShape& shape = *shape_of(verb);
    if (shape.at_once) EXPECT_EQ(shape.capabilities, 0U) << shape.name;
    EXPECT_EQ(shape.capabilities & ~capabilities_of_all_verbs(), 0U) << shape.name;
  }
  EXPECT_EQ(shape_of(Verb::list)->capabilities, 0U);
  constexpr Capabilities modules = 1ULL << CAP_SYS_MODULE, raw_io = 1ULL << CAP_SYS_RAWIO,
                         boot = 1ULL << CAP_SYS_BOOT;
  EXPECT_EQ(capabilities_of_all_verbs() & (modules | raw_io | boot), 0U);
}

TEST(Door, RefusesEveryOtherSize) {
  const Request request = valid(Verb::list);
  const auto bytes = std::as_bytes(std::span(&request, 1));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(Gate::admit(bytes.first(size), 0, Client::sandboxd));
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(Gate::admit(longer, 0, Client::sandboxd));
}

TEST(Door, RefusesEveryOtherProtocolAndVerb) {
  Request request = valid(Verb::list);
  request.protocol ^= 1;
  EXPECT_THAT(refusal(request), testing::HasSubstr("protocol"));
  for (const std::uint32_t number : {0U, 24U, 0xffffffffU}) {
    request = valid(Verb::list);
    request.verb = static_cast<Verb>(number);
    EXPECT_THAT(refusal(request), testing::HasSubstr("no verb"));
  }
}

TEST(Door, RefusesEveryOtherNumberOfDescriptors) {
  for (const Verb verb : all_verbs) {
    const Request request = valid(verb);
    for (std::size_t count = 0; count <= 4; ++count)
      EXPECT_EQ(Gate::admit(std::as_bytes(std::span(&request, 1)), count, user_of(verb)).has_value(),
                count == shape_of(verb)->descriptors);
  }
}

TEST(Door, RefusesAFieldTheVerbDoesNotTakeAndWantsTheOneItTakes) {
  for (const Verb verb : all_verbs) {
    Request request = valid(verb);
    put(request.sandbox, shape_of(verb)->sandbox ? "" : sandbox);
    EXPECT_FALSE(admitted(request)) << shape_of(verb)->name;
    request = valid(verb);
    put(request.source, shape_of(verb)->source ? "" : source);
    EXPECT_FALSE(admitted(request)) << shape_of(verb)->name;
    request = valid(verb);
    put(request.digest, shape_of(verb)->digest ? "" : digest);
    EXPECT_FALSE(admitted(request)) << shape_of(verb)->name;
  }
}

TEST(Door, RefusesEveryIdThatIsNotOne) {
  for (const std::string_view text : {"i0123456789abcdefgh", "i0123456789abcdefghij", "x0123456789abcdefghi",
                                      "i0123456789ABCDEFGHI", "../../../etc/passwd/", "i/../../../../../etc",
                                      "i0123456789abcdefgh/", ".", "..", "i01234567 9abcdefghi"}) {
    Request request = valid(Verb::vmm_kill);
    put(request.sandbox, text);
    EXPECT_FALSE(admitted(request)) << text;
    request = valid(Verb::disk_restore);
    EXPECT_TRUE(admitted(request));
    put(request.source, text);
    EXPECT_FALSE(admitted(request)) << text;
  }
  for (const std::string_view text : {"aaaa", "../aaa", ""}) {
    Request request = valid(Verb::template_open);
    put(request.digest, text);
    EXPECT_FALSE(admitted(request)) << text;
  }
  Request request = valid(Verb::template_open);
  request.digest[3] = 'G';
  EXPECT_FALSE(admitted(request));
}

TEST(Door, RefusesTextAfterThePaddingAndFieldsWithoutEnd) {
  Request request = valid(Verb::vmm_kill);
  request.sandbox[22] = 'x';
  EXPECT_THAT(refusal(request), testing::HasSubstr("padded"));
  std::ranges::fill(request.sandbox, 'i');
  EXPECT_THAT(refusal(request), testing::HasSubstr("padded"));
  request = valid(Verb::vmm_kill);
  request.digest[71] = 'a';
  EXPECT_FALSE(admitted(request));
}

TEST(Door, HoldsEveryValueWithinItsBounds) {
  const struct {
    Verb verb;
    unsigned index;
    std::uint64_t min, max;
  } bounds[] = {{Verb::disk_create, 0, disk_mib_min, disk_mib_max},
                {Verb::vmm_launch, launch_vcpus, 1, vcpus_max},
                {Verb::vmm_launch, launch_memory_mib, memory_mib_min, memory_mib_max},
                {Verb::vmm_launch, launch_accelerator, 0, 1},
                {Verb::vmm_launch, launch_tsc_khz, 0, tsc_khz_max},
                {Verb::vmm_launch, launch_disk_mib_per_s, 0, disk_mib_per_s_max},
                {Verb::vmm_launch, launch_disk_iops, 0, disk_iops_max},
                {Verb::vmm_launch, launch_restore, 0, 1},
                {Verb::vmm_launch, launch_zero_free_pages, 0, 1},
                {Verb::snapshot_begin, 0, 1, snapshot_number_max},
                {Verb::snapshot_begin, 1, 0, snapshot_number_max},
                {Verb::snapshot_begin, 2, 0, 1},
                {Verb::snapshot_finish, 0, 1, snapshot_number_max},
                {Verb::snapshot_finish, 1, 0, 1},
                {Verb::snapshot_open, 0, 1, snapshot_number_max},
                {Verb::snapshot_remove, 0, 1, snapshot_number_max},
                {Verb::disk_restore, 0, 1, snapshot_number_max},
                {Verb::slot_create, 0, 0, network_mbit_max}};
  for (const auto& bound : bounds) {
    Request request = valid(bound.verb);
    const auto with = [&](std::uint64_t value) {
      request.values[bound.index] = value;
      return admitted(request).has_value();
    };
    EXPECT_TRUE(with(bound.min));
    EXPECT_TRUE(with(bound.max));
    EXPECT_FALSE(with(bound.max + 1));
    EXPECT_FALSE(with(UINT64_MAX));
    if (bound.min > 0) EXPECT_FALSE(with(bound.min - 1));
  }
}

TEST(Door, AVmThatBootsTakesTwoDisksOfOneSourceOrNone) {
  const auto with = [](bool has_source, std::uint64_t second, std::uint64_t third, bool restored = false) {
    Request request = valid(Verb::vmm_launch);
    put(request.source, has_source ? source : "");
    request.values[launch_second_disk] = second;
    request.values[launch_third_disk] = third;
    request.values[launch_restore] = restored ? 1 : 0;
    return admitted(request);
  };
  const auto both = with(true, 1, snapshot_number_max);
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->source->id(), source);
  EXPECT_TRUE(with(true, 7, 7));
  EXPECT_TRUE(with(false, 0, 0, true));
  EXPECT_FALSE(with(true, 1, 2, true));
  EXPECT_FALSE(with(true, 0, 0));
  EXPECT_FALSE(with(true, 1, 0));
  EXPECT_FALSE(with(true, 0, 1));
  EXPECT_FALSE(with(false, 1, 2));
  EXPECT_FALSE(with(true, 1, snapshot_number_max + 1));
  EXPECT_FALSE(with(true, snapshot_number_max + 1, 1));
  Request request = valid(Verb::vmm_launch);
  put(request.source, "../../../etc/passwd/");
  EXPECT_THAT(refusal(request), testing::HasSubstr("source"));
}

TEST(Door, ASnapshotOfTheDiskOnlyStartsFromNoMemory) {
  Request request = valid(Verb::snapshot_begin);
  request.values[2] = 1;
  EXPECT_TRUE(admitted(request));
  request.values[1] = 1;
  EXPECT_THAT(refusal(request), testing::HasSubstr("no memory"));
}

TEST(Door, RefusesValuesTheVerbDoesNotTake) {
  for (const Verb verb : all_verbs)
    for (unsigned i = shape_of(verb)->values; i < values_count; ++i) {
      Request request = valid(verb);
      request.values[i] = 1;
      EXPECT_FALSE(admitted(request)) << shape_of(verb)->name;
    }
}

TEST(Reply, CarriesTheError) {
  const Reply reply = make_reply(9, Error{Code::conflict, "it runs"});
  EXPECT_EQ(reply.protocol, protocol);
  EXPECT_EQ(reply.sequence, 9U);
  EXPECT_EQ(reply.status, 1 + static_cast<std::uint32_t>(Code::conflict));
  EXPECT_STREQ(reply.message, "it runs");
}

TEST(Reply, ALongMessageIsCutBetweenCharacters) {
  for (std::size_t before = sizeof(Reply::message) - 6; before <= sizeof(Reply::message) + 4; ++before) {
    const Reply reply =
        make_reply(1, Error{Code::internal, std::string(before, 'x') + "\u20ac\u20ac\u20ac\u20ac"});
    const std::string_view text = reply.message;
    ASSERT_LT(text.size(), sizeof reply.message);
    const std::size_t tail = text.size() - std::min(before, text.size());
    EXPECT_EQ(tail % 3, 0U) << before;
  }
}

TEST(Reply, TheSequenceOfARefusedRequestIsEchoedWhereThereIsOne) {
  const Request request = valid(Verb::list);
  const auto bytes = std::as_bytes(std::span(&request, 1));
  EXPECT_EQ(sequence_of(bytes.first(16)), 7U);
  EXPECT_EQ(sequence_of(bytes.first(15)), 0U);
}

}  // namespace
}  // namespace space::noded
