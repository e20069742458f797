#include "jinja/time_text.hpp"

#include <array>
#include <chrono>

namespace godwit::protocols::jinja {

namespace {

constexpr std::array<std::string_view, 12> months{"January",   "February", "March",    "April",
                                                  "May",       "June",     "July",     "August",
                                                  "September", "October",  "November", "December"};
constexpr std::array<std::string_view, 7> days{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                               "Thursday", "Friday", "Saturday"};

std::string digits(std::int64_t number, std::size_t width, char fill = '0') {
  auto out = std::to_string(number);
  if (out.size() < width) out.insert(0, width - out.size(), fill);
  return out;
}

} // namespace

std::string time_text(std::int64_t unix_time_s, std::string_view format) {
  using namespace std::chrono;
  constexpr std::int64_t limit = 253'402'300'799; // the end of the year 9999
  const seconds since(unix_time_s < 0 ? 0 : unix_time_s > limit ? limit : unix_time_s);
  const auto day = floor<std::chrono::days>(sys_seconds(since));
  const year_month_day date(day);
  const hh_mm_ss time(sys_seconds(since) - day);
  const auto y = static_cast<std::int64_t>(static_cast<int>(date.year()));
  const auto month = static_cast<unsigned>(date.month());
  const auto month_day = static_cast<unsigned>(date.day());
  const auto week_day = weekday(day).c_encoding();
  const auto hour = time.hours().count();
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const bool bare = format.substr(i).starts_with("%-");
    const auto at = i + (bare ? 2 : 1); // of the letter
    if (format[i] != '%' || at >= format.size()) {
      out += format[i];
      continue;
    }
    const auto number = [&](std::int64_t of, std::size_t width, char fill = '0') {
      out += digits(of, bare ? 0 : width, fill);
    };
    const auto composed = [&](std::string_view of) { out += time_text(unix_time_s, of); };
    switch (format[at]) {
    case 'Y':
      number(y, 4);
      break;
    case 'y':
      number(y % 100, 2);
      break;
    case 'm':
      number(month, 2);
      break;
    case 'd':
      number(month_day, 2);
      break;
    case 'e':
      number(month_day, 2, ' ');
      break;
    case 'b':
      out += months[month - 1].substr(0, 3);
      break;
    case 'B':
      out += months[month - 1];
      break;
    case 'a':
      out += days[week_day].substr(0, 3);
      break;
    case 'A':
      out += days[week_day];
      break;
    case 'H':
      number(hour, 2);
      break;
    case 'I':
      number(hour % 12 == 0 ? 12 : hour % 12, 2);
      break;
    case 'M':
      number(time.minutes().count(), 2);
      break;
    case 'S':
      number(time.seconds().count(), 2);
      break;
    case 'p':
      out += hour < 12 ? "AM" : "PM";
      break;
    case 'j':
      number((day - sys_days(date.year() / January / 1)).count() + 1, 3);
      break;
    case 'F':
      composed("%Y-%m-%d");
      break;
    case 'T':
    case 'X':
      composed("%H:%M:%S");
      break;
    case 'D':
    case 'x':
      composed("%m/%d/%y");
      break;
    case 'R':
      composed("%H:%M");
      break;
    case 'c':
      composed("%a %b %e %H:%M:%S %Y");
      break;
    case 'Z':
    case 'z':
      break;
    case '%':
      out += '%';
      break;
    default:
      out += format.substr(i, at + 1 - i);
    }
    i = at;
  }
  return out;
}

} // namespace godwit::protocols::jinja
