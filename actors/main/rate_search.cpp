#include "main/rate_search.hpp"

#include <cmath>

namespace godwit::main {

double highest_rate(const std::function<bool(double)>& holds, double first, double precision) {
  constexpr int doublings = 12;
  double good = 0, bad = 0;
  double rate = first;
  for (int i = 0; i <= doublings; ++i) {
    const bool held = holds(rate);
    (held ? good : bad) = rate;
    if (good > 0 && bad > 0) break;
    rate = held ? rate * 2 : rate / 2;
  }
  if (good == 0 || bad == 0) return good;
  while (bad / good > 1 + precision) {
    const auto middle = std::sqrt(good * bad);
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

} // namespace godwit::main
