#include "explore/shrink.hpp"

#include <algorithm>
#include <utility>

namespace godwit::explore {

namespace {

class shrinker {
public:
  shrinker(shrunk& best, std::uint32_t runs_max, const std::function<outcome(const scenario&)>& attempt)
      : best_(best), runs_max_(runs_max), attempt_(attempt) {}

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
        if (auto out = attempt_(less); out.broken == best_.what.broken) {
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
  std::uint32_t runs_max_;
  const std::function<outcome(const scenario&)>& attempt_;
};

} // namespace

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
