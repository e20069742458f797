#include "explore/shrink.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::explore {

namespace {

class shrinker {
public:
  shrinker(shrunk& best, std::uint32_t runs_max, const std::function<outcome(const scenario&)>& attempt)
      : best_(best), whole_(best.what), runs_max_(runs_max), attempt_(attempt) {}

  /// True where something could be left out.
  template <class Part> bool leave_out(std::vector<Part> scenario::*parts) {
    bool any = false;
    for (auto size = std::max<std::size_t>(1, (best_.smallest.*parts).size()); size > 0; size /= 2)
      for (std::size_t at = 0; at < (best_.smallest.*parts).size();) {
        if (best_.runs >= runs_max_) return any;
        auto less = best_.smallest;
        auto& list = less.*parts;
        const auto first = list.begin() + static_cast<std::ptrdiff_t>(at);
        list.erase(first, first + static_cast<std::ptrdiff_t>(std::min(size, list.size() - at)));
        ++best_.runs;
        if (auto out = attempt_(less); same_failure(out, whole_)) {
          best_.smallest = std::move(less);
          best_.what = std::move(out);
          any = true;
        } else {
          at += size;
        }
      }
    return any;
  }

private:
  shrunk& best_;
  const outcome whole_;
  std::uint32_t runs_max_;
  const std::function<outcome(const scenario&)>& attempt_;
};

/// What a line says, part by part, without its numbers; but that something came after no token says more than after
/// how many.
std::set<std::string> parts_of(const std::string& details) {
  std::set<std::string> out;
  std::string part;
  const auto end = [&] {
    const auto first = part.find_first_not_of(' ');
    if (first != std::string::npos) out.insert(part.substr(first, part.find_last_not_of(' ') + 1 - first));
    part.clear();
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  constexpr std::string_view none = "0 tokens";
  for (std::size_t at = 0; at < details.size(); ++at) {
    const char c = details[at];
    if (c == ',' || c == ';' || c == ':')
      end();
    else if (!is_digit(c))
      part += c;
    else if ((at == 0 || !is_digit(details[at - 1])) && details.compare(at, none.size(), none) == 0)
      part += "no";
  }
  end();
  return out;
}

} // namespace

bool same_failure(const outcome& less, const outcome& whole) {
  if (less.broken != whole.broken) return false;
  const auto some = parts_of(less.details), all = parts_of(whole.details);
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

shrunk shrink(const scenario& failing, const outcome& how, std::uint32_t runs_max,
              const std::function<outcome(const scenario&)>& attempt) {
  shrunk best{failing, how, 0};
  shrinker s(best, runs_max, attempt);
  for (bool smaller = true; smaller && best.runs < runs_max;) {
    smaller = s.leave_out(&scenario::settings);
    smaller = s.leave_out(&scenario::faults) || smaller;
    smaller = s.leave_out(&scenario::requests) || smaller;
  }
  return best;
}

} // namespace godwit::explore
