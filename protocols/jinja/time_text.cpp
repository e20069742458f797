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
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    switch (format[++i]) {
    case 'Y':
      out += digits(y, 4);
      break;
    case 'y':
      out += digits(y % 100, 2);
      break;
    case 'm':
      out += digits(month, 2);
      break;
    case 'd':
      out += digits(month_day, 2);
      break;
    case 'e':
      out += digits(month_day, 2, ' ');
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
      out += digits(hour, 2);
      break;
    case 'I':
      out += digits(hour % 12 == 0 ? 12 : hour % 12, 2);
      break;
    case 'M':
      out += digits(time.minutes().count(), 2);
      break;
    case 'S':
      out += digits(time.seconds().count(), 2);
      break;
    case 'p':
      out += hour < 12 ? "AM" : "PM";
      break;
    case 'j':
      out += digits((day - sys_days(date.year() / January / 1)).count() + 1, 3);
      break;
    case 'F':
      out += digits(y, 4) + "-" + digits(month, 2) + "-" + digits(month_day, 2);
      break;
    case 'T':
      out += digits(hour, 2) + ":" + digits(time.minutes().count(), 2) + ":" + digits(time.seconds().count(), 2);
      break;
    case '%':
      out += '%';
      break;
    default:
      out += '%';
      out += format[i];
    }
  }
  return out;
}

} // namespace godwit::protocols::jinja
