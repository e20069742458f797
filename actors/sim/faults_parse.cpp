#include <godwit/actors/sim/faults.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

// How a plan of faults is written.
namespace godwit::actors::sim {

using protocols::expected;
using protocols::unexpected;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

constexpr double per_second_max = 100;
constexpr double factor_max = 1000;
constexpr std::string_view head = "head";
constexpr std::string_view instance_prefix = "instance-";

using wrong = unexpected<std::string>;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// A number from 0 on, and what follows it.
template <class Number = double>
std::optional<std::pair<Number, std::string_view>> number_and_rest(std::string_view text) {
  if (text.find_first_of("0123456789.") != 0) return std::nullopt; // no sign, no infinity
  Number value = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  return std::pair{value, std::string_view(stop, static_cast<std::size_t>(end - stop))};
}

expected<nanoseconds, std::string> parse_time(std::string_view text) {
  const auto bad = [text](const char* what) { return wrong("'" + std::string(text) + "' is " + what); };
  constexpr auto no_time = "no time; write a number with ns, ms, s, min or h, as in 120s";
  constexpr std::array<std::pair<std::string_view, nanoseconds>, 5> units{
      {{"ns", 1ns}, {"ms", 1ms}, {"s", 1s}, {"min", 1min}, {"h", 1h}}};
  const auto read = number_and_rest<long double>(text); // a double has not all nanoseconds of a thousand hours
  if (!read) return bad(no_time);
  for (const auto& [name, unit] : units) {
    if (name != read->second) continue;
    const auto time_ns = read->first * static_cast<long double>(unit.count());
    if (time_ns > static_cast<long double>(nanoseconds(fault_time_max).count()))
      return bad("longer than any run; write at most 10000h");
    return nanoseconds(std::llround(time_ns));
  }
  return bad(no_time);
}

struct span {
  nanoseconds from{0};
  std::optional<nanoseconds> lasts;
};

/// START[+DURATION]
expected<span, std::string> parse_span(std::string_view text) {
  const auto plus = text.find('+');
  span out;
  auto from = parse_time(text.substr(0, plus));
  if (!from) return wrong(std::move(from.error()));
  out.from = *from;
  if (plus == std::string_view::npos) return out;
  auto lasts = parse_time(text.substr(plus + 1));
  if (!lasts) return wrong(std::move(lasts.error()));
  out.lasts = *lasts;
  if (out.lasts->count() == 0) return wrong("it lasts no time; leave +DURATION out for what is never mended");
  return out;
}

/// Empty: `name` is a process of the run; otherwise what is wrong with it.
std::string unknown(std::string_view name, std::uint32_t instances) {
  if (name == head) return {};
  if (name.starts_with(instance_prefix)) {
    const auto digits = name.substr(instance_prefix.size());
    std::uint32_t number = 0;
    const auto* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    const bool plain = !digits.empty() && stop == end && (digits.size() == 1 || digits.front() != '0');
    if (error == std::errc() && plain && number < instances) return {};
  }
  const auto last = std::string(instance_prefix) + std::to_string(instances - 1);
  return "there is no '" + std::string(name) + "'; this run has head and " + std::string(instance_prefix) + "0" +
         (instances > 1 ? " to " + last : "") + " (--instances)";
}

expected<random_faults, std::string> parse_random(std::string_view text) {
  const auto bad = [] { return wrong("write how many per s, min or h, as in random:12/h or random:12/h@60s+600s"); };
  random_faults out;
  const auto at = text.find('@');
  const auto read = number_and_rest(text.substr(0, at));
  if (!read) return bad();
  if (read->second == "/s")
    out.per_second = read->first;
  else if (read->second == "/min")
    out.per_second = read->first / 60;
  else if (read->second == "/h")
    out.per_second = read->first / 3600;
  else
    return bad();
  if (out.per_second <= 0 || out.per_second > per_second_max)
    return wrong("the rate must be above 0 and at most 100/s");
  if (at == std::string_view::npos) return out;
  auto when = parse_span(text.substr(at + 1));
  if (!when) return wrong(std::move(when.error()));
  out.from = when->from;
  out.lasts = when->lasts;
  return out;
}

/// Empty: all is well.
std::string parse_target(fault& f, std::string_view text, std::uint32_t instances) {
  if (f.kind == fault_kind::cut) {
    const auto slash = text.find('/');
    if (slash == std::string_view::npos) return "name both ends of the link, as in cut:head/instance-2@60s+5s";
    f.target = text.substr(0, slash);
    f.other = text.substr(slash + 1);
    if (f.target == f.other) return "a process has no link to itself; name another one";
    if (auto what = unknown(f.target, instances); !what.empty()) return what;
    return unknown(f.other, instances);
  }
  if (f.kind == fault_kind::slow) {
    const auto times = text.rfind('x');
    const auto factor = times == std::string_view::npos ? std::nullopt : number_and_rest(text.substr(times + 1));
    if (!factor || !factor->second.empty() || factor->first <= 1 || factor->first > factor_max)
      return "say how many times slower, above 1 and at most 1000, as in slow:instance-1x4@10s+60s";
    f.factor = factor->first;
    text = text.substr(0, times);
  }
  f.target = text;
  if (auto what = unknown(f.target, instances); !what.empty()) return what;
  if (f.target != head) return {};
  if (f.kind == fault_kind::slow) return "the head has no device; name an instance";
  if (f.kind != fault_kind::freeze) return "all requests end with their head; name an instance, or freeze the head";
  return {};
}

std::optional<fault_kind> kind_called(std::string_view name) {
  using enum fault_kind;
  for (const auto kind : {crash, vanish, cut, freeze, slow})
    if (to_string(kind) == name) return kind;
  return std::nullopt;
}

/// One part of a plan, into the plan. Empty: all is well.
std::string parse_part(fault_plan& plan, std::string_view part, std::uint32_t instances) {
  const auto colon = part.find(':');
  const auto name = part.substr(0, colon);
  const auto known = kind_called(name);
  if (!known && name != "random")
    return "no fault is called '" + std::string(name) + "'; known are crash, vanish, cut, freeze, slow and random";
  const auto rest = colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
  if (!known) {
    auto drawn = parse_random(rest);
    if (!drawn) return std::move(drawn.error());
    plan.random.push_back(*drawn);
    return {};
  }
  const auto at = rest.find('@');
  if (at == std::string_view::npos || at == 0)
    return "say to whom and when: KIND:TARGET@START+DURATION, as in crash:instance-0@120s+30s";
  fault f;
  f.kind = *known;
  if (auto what = parse_target(f, rest.substr(0, at), instances); !what.empty()) return what;
  auto when = parse_span(rest.substr(at + 1));
  if (!when) return std::move(when.error());
  f.at = when->from;
  f.lasts = when->lasts;
  if (f.target == head && f.kind == fault_kind::freeze && !f.lasts)
    return "nothing would ever end; say for how long, as in freeze:head@60s+2s";
  plan.planned.push_back(std::move(f));
  return {};
}

} // namespace

expected<fault_plan, std::string> parse_faults(std::string_view spec, std::uint32_t instances) {
  fault_plan out;
  for (;;) {
    const auto comma = spec.find(',');
    const auto part = trimmed(spec.substr(0, comma));
    const auto what = part.empty() ? "a fault is missing; write one, as in crash:instance-0@120s+30s"
                                   : parse_part(out, part, instances);
    if (!what.empty()) {
      auto line = "'" + std::string(part) + "': " + what;
      std::ranges::replace(line, '\n', ' '); // of the part
      return wrong(std::move(line));
    }
    if (comma == std::string_view::npos) return out;
    spec.remove_prefix(comma + 1);
  }
}

} // namespace godwit::actors::sim
