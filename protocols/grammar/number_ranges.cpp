#include "grammar/lexemes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace godwit::protocols::grammar {

namespace json = boost::json;

namespace {

constexpr std::size_t double_digits = 15;                     ///< that a double holds, whatever they are
constexpr std::uint64_t whole_max = 999'999'999'999'999'999U; // integer_digits_max nines

term_id digit(term_table& terms, int first, int last) {
  if (first > last) return term_table::nothing;
  return terms.bytes(byte_range(static_cast<std::uint8_t>('0' + first), static_cast<std::uint8_t>('0' + last)));
}

/// Digits from position `at` on, of numbers between two of the same length.
term_id same_length(term_table& terms, const std::string& low, const std::string& high, std::size_t at, bool above,
                    bool below) {
  const auto left = static_cast<std::uint32_t>(low.size() - at);
  if (left == 0) return term_table::empty;
  const int l = above ? low[at] - '0' : -1, h = below ? high[at] - '0' : 10;
  const auto any = terms.repeat(digit(terms, 0, 9), left - 1, left - 1);
  std::vector<term_id> parts{terms.sequence(digit(terms, l + 1, h - 1), any)};
  if (l == h) parts.push_back(terms.sequence(digit(terms, l, l), same_length(terms, low, high, at + 1, true, true)));
  if (above && l < h)
    parts.push_back(terms.sequence(digit(terms, l, l), same_length(terms, low, high, at + 1, true, false)));
  if (below && l < h)
    parts.push_back(terms.sequence(digit(terms, h, h), same_length(terms, low, high, at + 1, false, true)));
  return terms.choice(parts);
}

/// Decimal integers from low to high.
term_id whole_between(term_table& terms, std::uint64_t low, std::uint64_t high) {
  std::vector<term_id> parts;
  high = std::min(high, whole_max);
  std::uint64_t first = 0, last = 9; // of a length
  while (low <= high) {
    if (low <= last) {
      const auto from = std::max(low, first), to = std::min(high, last);
      parts.push_back(same_length(terms, std::to_string(from), std::to_string(to), 0, true, true));
      if (to == high) break;
      low = to + 1;
    }
    first = last + 1;
    last = last * 10 + 9;
  }
  return terms.choice(parts);
}

/// The digits of a fraction between two others, from one position on.
struct fraction_maker {
  term_table& terms;
  const number_bound* low;
  const number_bound* high;
  std::size_t digits_max = fraction_digits_max;

  [[nodiscard]] bool may_end(std::size_t at, bool above, bool below) const {
    return (!above || (at >= low->fraction.size() && !low->exclusive)) &&
           (!below || at < high->fraction.size() || !high->exclusive);
  }
  [[nodiscard]] term_id more(std::size_t at, bool above, bool below) const {
    if (at >= digits_max) return term_table::nothing;
    const auto left = static_cast<std::uint32_t>(digits_max - at);
    if (above && at >= low->fraction.size() && !low->exclusive) above = false;
    if (!above && !below) return terms.repeat(digit(terms, 0, 9), 1, left);
    const int l = above ? (at < low->fraction.size() ? low->fraction[at] - '0' : 0) : -1;
    const int h = below ? (at < high->fraction.size() ? high->fraction[at] - '0' : 0) : 10;
    if (l > h) return term_table::nothing;
    std::vector<term_id> parts{
        terms.sequence(digit(terms, l + 1, h - 1), terms.repeat(digit(terms, 0, 9), 0, left - 1))};
    const auto on = [&](int d, bool a, bool b) {
      parts.push_back(terms.sequence(digit(terms, d, d), from(at + 1, a, b)));
    };
    if (l == h) on(l, true, true);
    if (above && l < h) on(l, true, false);
    if (below && l < h) on(h, false, true);
    return terms.choice(parts);
  }
  [[nodiscard]] term_id from(std::size_t at, bool above, bool below) const {
    return terms.choice({may_end(at, above, below) ? term_table::empty : term_table::nothing, more(at, above, below)});
  }
  /// The point and the digits, or neither.
  [[nodiscard]] term_id whole() const {
    const bool above = low != nullptr, below = high != nullptr;
    return terms.choice({may_end(0, above, below) ? term_table::empty : term_table::nothing,
                         terms.sequence(terms.byte('.'), more(0, above, below))});
  }
};

std::size_t digits_of(std::uint64_t whole) { return whole == 0 ? 0 : std::to_string(whole).size(); }

/// Decimals without sign. `exact`: only those of so few digits that no two of them are one double.
term_id magnitudes(term_table& terms, const number_bound& low, const std::optional<number_bound>& high, bool exact) {
  if (high && high->whole < low.whole) return term_table::nothing;
  const auto behind = [&](std::uint64_t whole) -> std::size_t {
    return exact ? double_digits - std::min(double_digits, digits_of(whole)) : fraction_digits_max;
  };
  const auto number = [&](std::uint64_t whole, const number_bound* above, const number_bound* below) {
    if (exact && digits_of(whole) > double_digits) return term_table::nothing;
    return terms.sequence(whole_between(terms, whole, whole),
                          fraction_maker{terms, above, below, behind(whole)}.whole());
  };
  if (high && high->whole == low.whole) return number(low.whole, &low, &*high);
  const auto last = high ? high->whole : whole_max + 1;
  std::vector<term_id> parts{number(low.whole, &low, nullptr)};
  if (last > low.whole + 1 && !exact)
    parts.push_back(
        terms.sequence(whole_between(terms, low.whole + 1, last - 1), fraction_maker{terms, nullptr, nullptr}.whole()));
  std::uint64_t end = 1; // one above the wholes of so many digits
  for (std::size_t digits = 0; exact && digits <= double_digits; ++digits, end *= 10) {
    const auto first = std::max(low.whole + 1, end / 10), most = std::min(last - 1, end - 1);
    if (first <= most)
      parts.push_back(terms.sequence(whole_between(terms, first, most),
                                     fraction_maker{terms, nullptr, nullptr, double_digits - digits}.whole()));
  }
  if (high) parts.push_back(number(high->whole, nullptr, &*high));
  return terms.choice(parts);
}

number_bound mirrored(number_bound of) {
  of.negative = !of.negative;
  return of;
}

bool is_zero(const number_bound& of) { return of.whole == 0 && of.fraction.empty(); }

} // namespace

std::optional<number_bound> bound_of(const json::value& number, bool exclusive) {
  std::string text;
  if (number.is_int64()) {
    text = std::to_string(number.get_int64());
  } else if (number.is_uint64()) {
    text = std::to_string(number.get_uint64());
  } else {
    std::array<char, 400> room{};
    // The largest doubles may have been rounded up to infinity.
    constexpr double largest = std::numeric_limits<double>::max();
    const auto end = std::to_chars(room.data(), room.data() + room.size(),
                                   std::clamp(number.get_double(), -largest, largest), std::chars_format::fixed);
    if (end.ec != std::errc{}) return std::nullopt;
    text.assign(room.data(), end.ptr);
  }
  number_bound out;
  out.exclusive = exclusive;
  out.negative = text.front() == '-';
  if (out.negative) text.erase(0, 1);
  const auto point = text.find('.');
  if (point != std::string::npos) {
    out.fraction = text.substr(point + 1);
    out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
    text.resize(point);
  }
  if (text.size() > integer_digits_max) {
    out.beyond = true;
    return out;
  }
  if (out.fraction.size() >= fraction_digits_max) return std::nullopt;
  static_cast<void>(std::from_chars(text.data(), text.data() + text.size(), out.whole));
  if (is_zero(out)) out.negative = false;
  return out;
}

term_id integers_between(term_table& terms, const std::optional<number_bound>& low,
                         const std::optional<number_bound>& high) {
  // The bounds as integers that are inside.
  const auto limit = static_cast<std::int64_t>(whole_max);
  std::int64_t least = -limit, most = limit;
  if (low) {
    const auto whole = static_cast<std::int64_t>(low->whole);
    const bool exact = low->fraction.empty();
    least = low->negative ? -whole + (exact && low->exclusive ? 1 : 0) : whole + (!exact || low->exclusive ? 1 : 0);
  }
  if (high) {
    const auto whole = static_cast<std::int64_t>(high->whole);
    const bool exact = high->fraction.empty();
    most = high->negative ? -whole - (!exact || high->exclusive ? 1 : 0) : whole - (exact && high->exclusive ? 1 : 0);
  }
  least = std::max(least, -limit);
  most = std::min(most, limit);
  std::vector<term_id> parts;
  if (least < 0 && least <= most)
    parts.push_back(terms.sequence(terms.byte('-'),
                                   whole_between(terms, static_cast<std::uint64_t>(std::max<std::int64_t>(1, -most)),
                                                 static_cast<std::uint64_t>(-least))));
  if (most >= 0 && least <= most)
    parts.push_back(whole_between(terms, static_cast<std::uint64_t>(std::max<std::int64_t>(0, least)),
                                  static_cast<std::uint64_t>(most)));
  return terms.choice(parts);
}

namespace {

term_id numbers_between(term_table& terms, const std::optional<number_bound>& low,
                        const std::optional<number_bound>& high, bool exact) {
  const number_bound zero;
  std::vector<term_id> parts;
  if (!high || !high->negative) {
    const bool from_zero = !low || low->negative;
    parts.push_back(magnitudes(terms, from_zero ? zero : *low, high, exact));
  }
  if (!low || low->negative) {
    std::optional<number_bound> largest;
    if (low) largest = mirrored(*low);
    auto smallest = high && high->negative ? mirrored(*high) : zero;
    if (!high || !high->negative) smallest.exclusive = true; // no -0
    if (high && is_zero(*high)) smallest.exclusive = true;
    parts.push_back(terms.sequence(terms.byte('-'), magnitudes(terms, smallest, largest, exact)));
  }
  return terms.choice(parts);
}

} // namespace

term_id numbers_between(term_table& terms, const std::optional<number_bound>& low,
                        const std::optional<number_bound>& high) {
  // A reader takes a decimal for the nearest double, which may be an exclusive bound itself.
  if ((low && low->exclusive) || (high && high->exclusive))
    if (const auto all = numbers_between(terms, low, high, true); all != term_table::nothing) return all;
  return numbers_between(terms, low, high, false);
}

} // namespace godwit::protocols::grammar
