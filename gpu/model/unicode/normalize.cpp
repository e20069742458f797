#include "model/unicode/normalize.hpp"

#include "model/unicode/classes.hpp"
#include "model/unicode/tables.hpp"
#include "model/utf8.hpp"

#include <algorithm>
#include <vector>

namespace godwit::gpu::model::unicode {

namespace {

// Hangul syllables compose by arithmetic (Unicode standard, 3.12).
constexpr char32_t s_base = 0xAC00, l_base = 0x1100, v_base = 0x1161, t_base = 0x11A7;
constexpr char32_t l_count = 19, v_count = 21, t_count = 28, s_count = l_count * v_count * t_count;
constexpr char32_t first_interesting = 0x300;

std::uint8_t combining_class(char32_t code) noexcept {
  if (code < first_interesting) return 0;
  const auto rows = combining_rows();
  const auto after = std::upper_bound(rows.begin(), rows.end(), code,
                                      [](char32_t c, const combining_range& row) { return c < row.first; });
  if (after == rows.begin()) return 0;
  const auto& row = *std::prev(after);
  return code <= row.last ? row.value : std::uint8_t{0};
}

void decompose(char32_t code, std::u32string& out) {
  if (code >= s_base && code < s_base + s_count) {
    const auto index = code - s_base;
    out += l_base + index / (v_count * t_count);
    out += v_base + index % (v_count * t_count) / t_count;
    if (index % t_count != 0) out += t_base + index % t_count;
    return;
  }
  const auto rows = canonical_rows();
  const auto found = std::lower_bound(rows.begin(), rows.end(), code,
                                      [](const canonical_pair& row, char32_t c) { return row.code < c; });
  if (code < 0xC0 || found == rows.end() || found->code != code) {
    out += code;
    return;
  }
  decompose(found->first, out); // the table's depth is small and has no cycles
  if (found->second != 0) decompose(found->second, out);
}

struct composition {
  char32_t first;
  char32_t second;
  char32_t whole;
  friend bool operator<(const composition& a, const composition& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  }
};

std::vector<composition> compositions() {
  std::vector<composition> all;
  for (const auto& row : canonical_rows())
    if (row.composes != 0) all.push_back({row.first, row.second, row.code});
  std::sort(all.begin(), all.end());
  return all;
}

/// 0: the two stay apart.
char32_t compose(const std::vector<composition>& all, char32_t a, char32_t b) {
  if (a >= l_base && a < l_base + l_count && b >= v_base && b < v_base + v_count)
    return s_base + ((a - l_base) * v_count + (b - v_base)) * t_count;
  if (a >= s_base && a < s_base + s_count && (a - s_base) % t_count == 0 && b > t_base && b < t_base + t_count)
    return a + (b - t_base);
  const auto found = std::lower_bound(all.begin(), all.end(), composition{a, b, 0});
  return found != all.end() && found->first == a && found->second == b ? found->whole : 0;
}

/// Canonical ordering: marks between two starters stand by their class.
void order(std::u32string& text) {
  for (std::size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    auto end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(i), text.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

std::u32string composed(const std::u32string& text) {
  static const auto all = compositions();
  std::u32string out;
  std::size_t starter = std::u32string::npos;
  std::uint8_t last_class = 0;
  for (const auto code : text) {
    const auto own = combining_class(code);
    const bool reachable = starter != std::u32string::npos && (starter + 1 == out.size() || last_class < own);
    if (reachable) {
      if (const auto whole = compose(all, out[starter], code); whole != 0) {
        out[starter] = whole;
        continue;
      }
    }
    if (own == 0) starter = out.size();
    last_class = own;
    out += code;
  }
  return out;
}

void decompose_compatibly(char32_t code, std::u32string& out) {
  const auto rows = compatibility_rows();
  const auto found = std::lower_bound(rows.begin(), rows.end(), code,
                                      [](const compatibility_row& row, char32_t c) { return row.code < c; });
  if (found == rows.end() || found->code != code) return decompose(code, out);
  const auto pool = compatibility_pool().subspan(found->offset, found->length);
  out.append(pool.begin(), pool.end());
}

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<std::uint8_t>(c) < 0x80; });
}

} // namespace

bool surely_nfc(std::string_view text) {
  const auto& table = all_traits();
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<std::uint8_t>(text[at]) < 0xCC) { // below U+0300
      ++at;
      continue;
    }
    const auto character = read_utf8(text, at);
    if (table.of(character.code).unstable()) return false;
    at += character.length;
  }
  return true;
}

std::string normalized(std::string_view text, form which) {
  if (is_ascii(text) || (which == form::nfc && surely_nfc(text))) return std::string(text);
  const bool compatible = which == form::nfkc || which == form::nfkd;
  std::u32string apart;
  apart.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto character = read_utf8(text, at);
    at += character.length;
    if (compatible)
      decompose_compatibly(character.code, apart);
    else
      decompose(character.code, apart);
  }
  order(apart);
  if (which == form::nfc || which == form::nfkc) apart = composed(apart);
  std::string out;
  out.reserve(text.size());
  for (const auto code : apart) append_utf8(out, code);
  return out;
}

} // namespace godwit::gpu::model::unicode
