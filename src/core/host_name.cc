#include "core/host_name.h"

#include <idn2.h>
#include <libpsl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>

namespace space {
namespace {

constexpr std::size_t name_max = 253, label_max = 63;
constexpr std::size_t input_max = 1024;  // before conversion, which only shortens what is longer than a name
constexpr std::size_t quoted_max = 80;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_label_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The label as libidn2 has it; nullopt when IDNA2008 has none for it.
std::optional<std::string> idna_label(std::string_view label) {
  const std::string terminated(label);
  std::uint8_t* converted = nullptr;
  const int status = ::idn2_lookup_u8(reinterpret_cast<const std::uint8_t*>(terminated.c_str()), &converted,
                                      IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL | IDN2_USE_STD3_ASCII_RULES);
  const std::unique_ptr<std::uint8_t, void (*)(void*)> owned(converted, ::idn2_free);
  if (status != IDN2_OK || converted == nullptr) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(converted));
}

// nullopt: no label. What is mapped to a dot or to nothing is none either.
std::optional<std::string> canonical_label(std::string_view label) {
  std::string out(label);
  std::ranges::transform(out, out.begin(), lower);
  const bool ascii = is_ascii(out);
  // Before libidn2 sees it: no ASCII but that of labels.
  if (!std::ranges::all_of(out,
                           [](char c) { return static_cast<unsigned char>(c) >= 0x80 || is_label_byte(c); }))
    return std::nullopt;
  if (!ascii || out.starts_with("xn--")) {
    auto converted = idna_label(out);
    if (!converted || (ascii && *converted != out)) return std::nullopt;
    out = *std::move(converted);
  }
  if (out.empty() || out.size() > label_max || !std::ranges::all_of(out, is_label_byte)) return std::nullopt;
  return out;
}

bool is_number(std::string_view label) {
  if (is_digits(label)) return true;
  if (!label.starts_with("0x")) return false;
  return std::ranges::all_of(label.substr(2),
                             [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  if (!is_digits(text) || text.size() > 5) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || port == 0) return std::nullopt;
  return port;
}

// What somebody meant who wrote a URL, a leading dot or a "*" within a label; "" when it cannot be guessed.
std::string nearest_pattern(std::string_view text) {
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos) text.remove_prefix(scheme + 3);
  text = text.substr(0, text.find('/'));
  bool below = false;
  if (const auto star = text.rfind('*'); star != std::string_view::npos) {
    // "*name.com" is meant to be below name.com, "api*x.name.com" below name.com.
    const bool begins_label = star == 0 || text[star - 1] == '.';
    const auto behind = begins_label ? star + 1 : text.find('.', star);
    if (behind == std::string_view::npos) return "";
    text.remove_prefix(behind);
    below = true;
  }
  while (text.starts_with('.')) {
    text.remove_prefix(1);
    below = true;
  }
  const auto authority = parse_authority(text);
  if (!authority || authority->host.address || (below && is_public_suffix(authority->host.name))) return "";
  return (below ? "*." : "") + authority->host.name;
}

std::unexpected<Error> no_pattern(std::string_view text, std::string_view why) {
  const std::string nearest = nearest_pattern(text);
  return fail(Code::invalid_argument, "'{}' {}{}", quoted(text), why,
              nearest.empty() ? "" : fmt::format("; write '{}'", nearest));
}

bool is_below(std::string_view name, std::string_view apex) {
  return name.size() > apex.size() + 1 && name.ends_with(apex) && name[name.size() - apex.size() - 1] == '.';
}

}  // namespace

Result<std::string> canonical_host_name(std::string_view text) {
  std::string_view rest = text;
  if (rest.ends_with('.')) rest.remove_suffix(1);
  if (rest.empty()) return fail(Code::invalid_argument, "'{}' is no host name: it is empty", quoted(text));
  if (rest.size() > input_max)
    return fail(Code::invalid_argument, "'{}' is no host name: it is longer than {} bytes", quoted(text),
                name_max);
  std::string name, last;
  while (true) {
    const auto dot = rest.find('.');
    const auto label = canonical_label(rest.substr(0, dot));
    if (!label)
      return fail(
          Code::invalid_argument,
          "'{}' is no host name: its label '{}' is empty, too long or has characters that no host name has",
          quoted(text), quoted(rest.substr(0, dot)));
    last = *label;
    name += last;
    if (dot == std::string_view::npos) break;
    name += '.';
    rest.remove_prefix(dot + 1);
  }
  if (name.size() > name_max)
    return fail(Code::invalid_argument, "'{}' is no host name: it is longer than {} bytes", quoted(text),
                name_max);
  if (is_number(last))
    return fail(Code::invalid_argument, "'{}' is no host name: it ends in a number, as addresses do",
                quoted(text));
  return name;
}

Result<std::string> wire_host_name(std::string_view text) {
  if (!is_ascii(text))
    return fail(Code::invalid_argument, "'{}' is no host name as it is sent: it is not ASCII", quoted(text));
  return canonical_host_name(text);
}

std::string Host::text() const {
  if (!address) return name;
  return address->is_v4() ? address->text() : "[" + address->text() + "]";
}

Result<Host> parse_host(std::string_view text) {
  if (text.starts_with('[')) {
    const auto address =
        text.ends_with(']') ? IpAddress::parse(text.substr(1, text.size() - 2)) : std::nullopt;
    if (!address || address->is_v4())
      return fail(Code::invalid_argument, "'{}' is no IPv6 address in brackets", quoted(text));
    return Host{"", address};
  }
  if (const auto address = IpAddress::parse(text); address && address->is_v4()) return Host{"", address};
  SPACE_TRY(std::string name, canonical_host_name(text));
  return Host{std::move(name), std::nullopt};
}

Result<HostPort> parse_authority(std::string_view text) {
  const auto bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  const auto colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  HostPort parsed;
  SPACE_TRY(parsed.host, parse_host(text.substr(0, colon)));
  if (colon == std::string_view::npos) return parsed;
  parsed.port = parse_port(text.substr(colon + 1));
  if (!parsed.port)
    return fail(Code::invalid_argument, "'{}' has no port of 1 to 65535 behind its ':'", quoted(text));
  return parsed;
}

Result<HostPattern> HostPattern::parse(std::string_view text) {
  if (text == "*") return HostPattern{Kind::any, ""};
  const bool below = text.starts_with("*."), with_apex = text.starts_with("+.");
  const std::string_view rest = below || with_apex ? text.substr(2) : text;
  if (rest.contains('*'))
    return no_pattern(text, "has a '*' that is not the whole first label, as in '*.example.com'");
  if (IpAddress::parse(rest) || rest.starts_with('['))
    return fail(Code::invalid_argument,
                "'{}' is an address, which matches no rule for names; write it as \"cidr\"", quoted(text));
  auto name = canonical_host_name(rest);
  if (!name) return no_pattern(text, "is no host name, '*.name', '+.name' or '*'");
  return HostPattern{below ? Kind::below : with_apex ? Kind::apex_and_below : Kind::exact, *std::move(name)};
}

std::string HostPattern::text() const {
  switch (kind) {
    case Kind::exact:
      return name;
    case Kind::below:
      return "*." + name;
    case Kind::apex_and_below:
      return "+." + name;
    case Kind::any:
      return "*";
  }
  return "";
}

bool HostPattern::matches(std::string_view canonical) const {
  switch (kind) {
    case Kind::exact:
      return canonical == name;
    case Kind::below:
      return is_below(canonical, name);
    case Kind::apex_and_below:
      return canonical == name || is_below(canonical, name);
    case Kind::any:
      return true;
  }
  return false;
}

bool HostPattern::covers(const HostPattern& other) const {
  if (kind == Kind::any) return true;
  if (other.kind == Kind::any) return false;
  if (kind == Kind::exact) return other.kind == Kind::exact && other.name == name;
  if (is_below(other.name, name)) return true;
  return other.name == name && (kind == Kind::apex_and_below || other.kind == Kind::below);
}

bool is_public_suffix(const std::string& canonical) {
  const psl_ctx_t* list = ::psl_builtin();
  if (list == nullptr) return !canonical.contains('.');
  return ::psl_is_public_suffix2(list, canonical.c_str(), PSL_TYPE_ICANN) == 1;
}

std::string quoted(std::string_view hostile) {
  std::string out;
  for (const char c : hostile) {
    if (out.size() >= quoted_max) return out + "...";
    if (c >= ' ' && c <= '~' && c != '\'' && c != '\\')
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace space
