#include <godwit/actors/sim/faults.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace godwit::actors::sim {

using std::chrono::nanoseconds;

namespace {

/// Far from those of arrivals, lengths and prompts.
constexpr std::uint64_t stream_base = 0xFA17'0000'0000'0000ULL;

// What is drawn at random, in ms where it is a time: from where peers do not notice to where all are sure.
constexpr std::uint64_t down_least_ms = 5'000, down_most_ms = 60'000;
constexpr std::uint64_t cut_least_ms = 200, cut_most_ms = 30'000;
constexpr std::uint64_t freeze_least_ms = 100, freeze_most_ms = 10'000;
constexpr std::uint64_t slow_least_ms = 10'000, slow_most_ms = 120'000;
constexpr std::uint64_t factor_least = 2, factor_most = 8;

constexpr nanoseconds::rep ns_per_ms = 1'000'000;

std::string without_zeros(std::string number) {
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return number;
}

/// In seconds, all of their places.
std::string in_units(nanoseconds time) {
  constexpr nanoseconds::rep ns_per_s = 1'000'000'000;
  const auto places = std::to_string(ns_per_s + time.count() % ns_per_s).substr(1);
  return without_zeros(std::to_string(time.count() / ns_per_s) + "." + places) + "s";
}

/// No longer than it must be to be read as the same number.
std::string written(double number) {
  std::array<char, 32> out{};
  const auto end = std::to_chars(out.data(), out.data() + out.size(), number).ptr;
  return {out.data(), end};
}

std::string instance_name(std::uint64_t number) { return "instance-" + std::to_string(number); }

} // namespace

std::string_view to_string(fault_kind kind) noexcept {
  switch (kind) {
  case fault_kind::crash:
    return "crash";
  case fault_kind::vanish:
    return "vanish";
  case fault_kind::cut:
    return "cut";
  case fault_kind::freeze:
    return "freeze";
  case fault_kind::slow:
    return "slow";
  }
  return "?";
}

std::string to_string(const fault& f) {
  std::string out(to_string(f.kind));
  out += ":" + f.target;
  if (f.kind == fault_kind::cut) out += "/" + f.other;
  if (f.kind == fault_kind::slow) out += "x" + written(f.factor);
  out += "@" + in_units(f.at);
  if (f.lasts) out += "+" + in_units(*f.lasts);
  return out;
}

fault_draws::fault_draws(const random_faults& what, std::uint64_t seed, std::uint64_t number, std::uint32_t instances)
    : what_(what), random_(seed, stream_base + number), instances_(instances),
      at_s_(std::chrono::duration<double>(what.from).count()) {}

std::uint64_t fault_draws::between(std::uint64_t least, std::uint64_t most) {
  return least + random_.below(most - least + 1);
}

std::optional<fault> fault_draws::next() {
  at_s_ -= std::log(random_.unit()) / what_.per_second;
  if (at_s_ > std::chrono::duration<double>(fault_time_max).count()) return std::nullopt;
  fault f;
  // To the millisecond, so that what a report says can be planned.
  f.at = std::max(what_.from, nanoseconds(static_cast<nanoseconds::rep>(at_s_ * 1000) * ns_per_ms));
  if (what_.lasts && f.at >= what_.from + *what_.lasts) return std::nullopt;
  const auto number = random_.below(instances_);
  f.target = instance_name(number);
  std::uint64_t lasts_ms = 0;
  switch (random_.below(4)) {
  case 0:
    f.kind = fault_kind::crash;
    lasts_ms = between(down_least_ms, down_most_ms);
    break;
  case 1:
    f.kind = fault_kind::cut;
    lasts_ms = between(cut_least_ms, cut_most_ms);
    f.other = f.target;
    f.target = "head";
    if (instances_ > 1 && random_.below(2) == 0) // of the others, all alike
      f.target = instance_name((number + 1 + random_.below(instances_ - 1)) % instances_);
    break;
  case 2:
    f.kind = fault_kind::freeze;
    lasts_ms = between(freeze_least_ms, freeze_most_ms);
    break;
  default:
    f.kind = fault_kind::slow;
    f.factor = static_cast<double>(between(factor_least, factor_most));
    lasts_ms = between(slow_least_ms, slow_most_ms);
  }
  f.lasts = nanoseconds(static_cast<nanoseconds::rep>(lasts_ms) * ns_per_ms);
  return f;
}

} // namespace godwit::actors::sim
