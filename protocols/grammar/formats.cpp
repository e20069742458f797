#include "grammar/formats.hpp"

#include <algorithm>
#include <array>

namespace godwit::protocols::grammar {

namespace {

constexpr std::array<std::string_view, 9> formats{"date",  "time",     "date-time", "duration", "uuid",
                                                  "email", "hostname", "ipv4",      "ipv6"};

struct implication {
  std::string_view format;
  std::string_view pattern;
};
constexpr std::array<implication, 2> implied{
    {{"email", R"(^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$)"},
     {"duration", R"(^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$)"}}};

} // namespace

bool is_format(std::string_view format) noexcept { return std::ranges::find(formats, format) != formats.end(); }

bool format_implies(std::string_view format, std::string_view pattern) noexcept {
  return std::ranges::any_of(implied,
                             [&](const implication& one) { return one.format == format && one.pattern == pattern; });
}

std::string_view without_look_around(std::string_view pattern) noexcept {
  return pattern == R"(^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$)" ? R"(^[+-]?(\d+\.?\d*|\.\d+)$)" : pattern;
}

std::optional<std::string> pattern_of_format(std::string_view format) {
  // Years from 0001 on; every month has the days it has.
  const std::string year = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})";
  const std::string leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  const std::string date = "(?:" + year +
                           "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
                           "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
                           leap_year + "-02-29)";
  const std::string clock = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
  const std::string time = clock + ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" + clock + ")";
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
  if (format == "date") return "^" + date + "$";
  if (format == "time") return "^" + time + "$";
  if (format == "date-time") return "^" + date + "T" + time + "$";
  if (format == "duration")
    return "^P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)"
           "(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?|"
           "T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))$";
  if (format == "uuid") return "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$";
  if (format == "email")
    return "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,15}){0,2}@(?:" + label + "\\.){1,3}[A-Za-z]{2,24}$";
  if (format == "hostname") return "^" + label + "(?:\\." + label + "){0,6}$";
  if (format == "ipv4") return "^" + octet + "(?:\\." + octet + "){3}$";
  if (format == "ipv6") return "^[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7}$";
  return std::nullopt;
}

} // namespace godwit::protocols::grammar
