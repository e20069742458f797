#include "support/bench.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace godwit::bench {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

comparison interleave(int repetitions, const std::function<double()>& ours, const std::function<double()>& reference) {
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  (void)ours();
  (void)reference();
  for (int i = 0; i < repetitions; ++i) {
    const bool ours_first = i % 2 == 0;
    if (ours_first) a.push_back(ours());
    b.push_back(reference());
    if (!ours_first) a.push_back(ours());
    ratios.push_back(a.back() / b.back());
  }
  return {median(a), median(b), median(ratios)};
}

bool figure::ok() const {
  if (!goal) return true;
  return goal->way == direction::at_most ? goal->reached <= goal->bound : goal->reached >= goal->bound;
}

figure told(std::string name, const comparison& c, std::string unit) {
  figure f;
  f.name = std::move(name);
  f.value = c.ours;
  f.unit = std::move(unit);
  f.reference = c.reference;
  f.ratio = c.ratio;
  return f;
}

figure compare(std::string name, const comparison& c, std::string unit, figure::direction way, double bound) {
  auto f = told(std::move(name), c, std::move(unit));
  f.goal = figure::goal_type{way, bound, c.ratio};
  return f;
}

session::session(int argc, char** argv, int default_repetitions) : repetitions_(default_repetitions) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json")
      json_ = true;
    else if (argument == "--repetitions" && i + 1 < argc)
      repetitions_ = std::max(1, std::atoi(argv[++i]));
    else if (!argument.empty() && argument.front() != '-')
      filter_ = argument;
    else {
      std::fprintf(stderr, "usage: %s [--json] [--repetitions N] [NAME_PART]\n", argv[0]);
      std::exit(2);
    }
  }
}

bool session::wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }

void session::add(const figure& f) {
  missed_ = missed_ || !f.ok();
  auto number = [](const std::optional<double>& x, const char* none) {
    if (!x) return std::string{none};
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", *x);
    return std::string{text};
  };
  const auto goal = f.goal ? std::optional<double>{f.goal->bound} : std::nullopt;
  if (json_) {
    std::printf(R"({"name": "%s", "value": %s, "unit": "%s", "reference": %s, "ratio": %s, "goal": %s, "ok": %s})"
                "\n",
                f.name.c_str(), number(f.value, "null").c_str(), f.unit.c_str(), number(f.reference, "null").c_str(),
                number(f.ratio, "null").c_str(), number(goal, "null").c_str(), f.ok() ? "true" : "false");
  } else {
    if (!header_)
      std::printf("%-36s %12s %-16s %12s %9s %9s\n", "figure", "value", "unit", "reference", "ratio", "goal");
    header_ = true;
    const auto bound =
        f.goal ? (f.goal->way == figure::direction::at_most ? "<= " : ">= ") + number(goal, "") : std::string{"-"};
    std::printf("%-36s %12s %-16s %12s %9s %9s %s\n", f.name.c_str(), number(f.value, "-").c_str(), f.unit.c_str(),
                number(f.reference, "-").c_str(), number(f.ratio, "-").c_str(), bound.c_str(),
                f.goal ? (f.ok() ? "ok" : "MISSED") : "");
  }
  std::fflush(stdout);
}

} // namespace godwit::bench
