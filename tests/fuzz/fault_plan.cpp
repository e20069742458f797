// Plans of faults (godwit sim --faults): a plan is refused with one line, or names processes and times that a run can
// have, and each of its faults, and of those that are drawn by its rates, is read again as the same from what a report
// prints.
#include <godwit/actors/sim/faults.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace godwit::actors::sim;

constexpr std::uint32_t instances = 4;

void check(bool good) {
  if (!good) std::abort();
}

bool is_instance(const std::string& name) {
  constexpr std::string_view known[] = {"instance-0", "instance-1", "instance-2", "instance-3"};
  return std::ranges::find(known, name) != std::end(known);
}

void check(const fault& f) {
  const bool head = f.target == "head";
  check(is_instance(f.target) || (head && (f.kind == fault_kind::cut || (f.kind == fault_kind::freeze && f.lasts))));
  check(f.kind == fault_kind::cut ? f.other != f.target && (is_instance(f.other) || f.other == "head")
                                  : f.other.empty());
  check(f.kind == fault_kind::slow ? f.factor > 1 && f.factor <= 1000 : f.factor == 1);
  check(f.at.count() >= 0 && f.at <= fault_time_max);
  check(!f.lasts || (f.lasts->count() > 0 && *f.lasts <= fault_time_max));
  const auto again = parse_faults(to_string(f), instances);
  check(again && again->random.empty() && again->planned.size() == 1 && again->planned.front() == f);
}

void check(const random_faults& r, std::uint64_t number) {
  check(r.per_second > 0 && r.per_second <= 100);
  fault_draws draws(r, 7, number, instances);
  auto last = r.from;
  for (int i = 0; i < 8; ++i) {
    const auto f = draws.next();
    if (!f) return;
    check(*f);
    check(f->at >= std::exchange(last, f->at) && (!r.lasts || f->at < r.from + *r.lasts));
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view spec(reinterpret_cast<const char*>(data), size);
  const auto plan = parse_faults(spec, instances);
  if (!plan) {
    check(plan.error().starts_with('\'') && plan.error().find('\n') == std::string::npos);
    check(!parse_faults(spec, 1)); // what cannot be meant of many instances cannot be meant of fewer
    return 0;
  }
  check(!plan->empty());
  std::string printed;
  for (const auto& f : plan->planned) {
    check(f);
    printed += (printed.empty() ? "" : ",") + to_string(f);
  }
  if (!printed.empty()) {
    const auto again = parse_faults(printed, instances);
    check(again && again->random.empty() && again->planned == plan->planned);
  }
  for (std::size_t i = 0; i < plan->random.size(); ++i) check(plan->random[i], i);
  return 0;
}
