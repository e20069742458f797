#include <godwit/protocols/workload/lengths.hpp>

#include "workload/trace_line.hpp"

#include <algorithm>
#include <charconv>

namespace godwit::protocols::workload {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t time_ns_max = 1'000'000'000'000'000'000;

bool digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::int64_t> integer(std::string_view text, std::int64_t max) {
  if (!digits(text)) return std::nullopt;
  auto value = std::int64_t{0};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || value > max) return std::nullopt;
  return value;
}

std::int64_t days_of(std::int64_t year, std::int64_t month) {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// Days since 1970 in the Gregorian calendar: years are counted from March, so that the leap day comes last.
std::int64_t days_since_1970(std::int64_t year, std::int64_t month, std::int64_t day) {
  const auto y = month <= 2 ? year - 1 : year;
  const auto era = y / 400;
  const auto year_of_era = y - era * 400;
  const auto day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

// What follows the seconds: nothing, Z, +HH:MM or -HH:MM.
std::optional<std::int64_t> parse_offset_s(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = integer(text.substr(1, 2), 14);
  const auto minutes = integer(text.substr(4, 2), 59);
  if (!hours || !minutes) return std::nullopt;
  return (text[0] == '-' ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

} // namespace

std::optional<std::int64_t> parse_decimal_ns(std::string_view text, std::int64_t unit_ns) {
  const auto point = text.find('.');
  const auto whole = integer(text.substr(0, point), time_ns_max / unit_ns);
  if (!whole) return std::nullopt;
  auto fraction_ns = std::int64_t{0};
  if (point != std::string_view::npos) {
    const auto fraction = text.substr(point + 1);
    if (!digits(fraction)) return std::nullopt;
    auto place_ns = unit_ns / 10;
    for (auto at = fraction.begin(); at != fraction.end() && place_ns > 0; ++at, place_ns /= 10)
      fraction_ns += (*at - '0') * place_ns;
  }
  return *whole * unit_ns + fraction_ns;
}

std::optional<std::int64_t> parse_date_time_ns(std::string_view text) {
  constexpr std::string_view form = "YYYY-MM-DD HH:MM:";
  if (text.size() < form.size() + 2) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto year = integer(text.substr(0, 4), 2200);
  const auto month = integer(text.substr(5, 2), 12);
  const auto day = integer(text.substr(8, 2), 31);
  const auto hour = integer(text.substr(11, 2), 23);
  const auto minute = integer(text.substr(14, 2), 59);
  const auto rest = text.substr(form.size());
  const auto seconds_end = std::min(rest.find_first_not_of("0123456789."), rest.size());
  const auto seconds_ns = parse_decimal_ns(rest.substr(0, seconds_end), second_ns);
  const auto offset_s = parse_offset_s(rest.substr(seconds_end));
  if (!year || *year < 1970 || !month || *month == 0 || !day || *day == 0 || *day > days_of(*year, *month) || !hour ||
      !minute || !seconds_ns || *seconds_ns >= 61 * second_ns || !offset_s)
    return std::nullopt;
  const auto seconds = days_since_1970(*year, *month, *day) * 86400 + *hour * 3600 + *minute * 60 - *offset_s;
  return seconds * second_ns + *seconds_ns;
}

std::optional<std::uint32_t> parse_token_count(std::string_view text) {
  const auto value = integer(text, length_tokens_max);
  if (!value) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

std::string quoted(std::string_view text) {
  constexpr std::size_t shown_max = 40;
  auto out = std::string("\"");
  for (const auto c : text.substr(0, shown_max)) out += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  return out + (text.size() > shown_max ? "...\"" : "\"");
}

} // namespace godwit::protocols::workload
