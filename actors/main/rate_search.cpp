#include "main/rate_search.hpp"

#include <cmath>

namespace godwit::main {

found_rate highest_rate(const std::function<bool(double)>& holds, double first, double precision) {
  constexpr double down = 256, up = 4096;
  double good = 0, bad = 0;
  for (double rate = first; rate >= first / down && rate <= first * up;) {
    const bool held = holds(rate);
    (held ? good : bad) = rate;
    if (good > 0 && bad > 0) break;
    rate = held ? rate * 2 : rate / 2;
  }
  if (good == 0 || bad == 0) return {good, false};
  while (bad / good > 1 + precision) {
    const auto middle = std::sqrt(good * bad);
    (holds(middle) ? good : bad) = middle;
  }
  return {good, true};
}

} // namespace godwit::main
