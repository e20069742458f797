#include <godwit/runtime/trace/analysis/follow.hpp>

#include <algorithm>

namespace godwit::runtime::trace::analysis {

namespace {

void find_causes(const index& of, position start, const follow_limits& limits, follow_tree& out) {
  auto p = of.cause(start);
  auto below = start;
  for (; p != nowhere; below = p, p = of.cause(p)) {
    if (out.causes.size() == limits.causes_max) {
      out.causes_cut = true;
      break;
    }
    out.causes.push_back(p);
  }
  out.cause_missing = p == nowhere && of[below].cause;
  std::reverse(out.causes.begin(), out.causes.end());
}

struct waiting {
  position what;
  std::size_t depth;
  bool last;
};

} // namespace

follow_tree follow(const index& of, position start, follow_limits limits) {
  follow_tree out;
  if (start >= of.size()) return out;
  find_causes(of, start, limits, out);
  std::vector<waiting> todo{{start, 0, true}};
  std::vector<bool> open; // per level: whether the one that is shown there was the last
  std::vector<bool> seen(of.size());
  while (!todo.empty()) {
    const auto now = todo.back();
    todo.pop_back();
    seen[now.what] = true;
    open.resize(now.depth);
    followed line;
    line.what = now.what;
    line.depth = now.depth;
    line.last_of = open;
    line.last_of.push_back(now.last);
    open.push_back(now.last);
    const auto effects = of.effects(now.what);
    // Room is for what is listed and for what is to come.
    const auto used = out.effects.size() + 1 + todo.size();
    const auto room = limits.events_max > used ? limits.events_max - used : 0;
    auto shown = now.depth >= limits.depth_max ? 0 : std::min<std::size_t>(effects.size(), room);
    while (shown > 0 && seen[effects[shown - 1]]) --shown;
    line.left_out = effects.size() - shown;
    for (std::size_t i = shown; i-- > 0;)
      if (!seen[effects[i]]) todo.push_back({effects[i], now.depth + 1, i + 1 == shown && line.left_out == 0});
    out.effects.push_back(std::move(line));
  }
  return out;
}

} // namespace godwit::runtime::trace::analysis
