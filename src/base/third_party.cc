// Bodies of the two header libraries that every process, the static guest daemon included, links:
// compiled once here instead of in every file that includes them. (Debian ships no static fmt.)
#include <fmt/format-inl.h>

#include <boost/json/src.hpp>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
