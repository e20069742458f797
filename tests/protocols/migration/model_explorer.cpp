#include "model_explorer.hpp"

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace godwit::protocols::model {
namespace {

constexpr std::uint32_t none = 0xFFFFFFFFU;

/// The states seen: their canonical bytes, one after the other, and a table of where they lie. Bytes are compared,
/// not only hashes, so no state is ever taken for another.
class seen_states {
public:
  seen_states() : table_(1U << 16U, none) {}

  /// The number of this state, and whether it is new.
  std::pair<std::uint32_t, bool> insert(std::string_view bytes) {
    if ((states_.size() + 1) * 10 > table_.size() * 6) grow();
    const auto hash = std::hash<std::string_view>{}(bytes);
    for (auto at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
      const auto number = table_[at];
      if (number == none) {
        const auto fresh = static_cast<std::uint32_t>(states_.size());
        table_[at] = fresh;
        states_.push_back(keep(bytes));
        hashes_.push_back(hash);
        return {fresh, true};
      }
      if (hashes_[number] == hash && states_[number] == bytes) return {number, false};
    }
  }

private:
  std::string_view keep(std::string_view bytes) {
    if (chunks_.empty() || chunk_bytes - filled_ < bytes.size()) {
      chunks_.push_back(std::make_unique<char[]>(chunk_bytes));
      filled_ = 0;
    }
    auto* to = chunks_.back().get() + filled_;
    std::memcpy(to, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return {to, bytes.size()};
  }
  void grow() {
    table_.assign(table_.size() * 2, none);
    for (std::uint32_t n = 0; n < states_.size(); ++n) {
      auto at = hashes_[n] & (table_.size() - 1);
      while (table_[at] != none) at = (at + 1) & (table_.size() - 1);
      table_[at] = n;
    }
  }

  static constexpr std::size_t chunk_bytes = 1U << 20U;
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::size_t filled_ = 0;
  std::vector<std::string_view> states_;
  std::vector<std::size_t> hashes_;
  std::vector<std::uint32_t> table_;
};

struct origin {
  std::uint32_t before = none;
  action by;
};

std::vector<action> path_to(const std::vector<origin>& origins, std::uint32_t state) {
  std::vector<action> path;
  for (; origins[state].before != none; state = origins[state].before) path.push_back(origins[state].by);
  std::ranges::reverse(path);
  return path;
}

/// A state from which nothing that happens by itself leads to rest, or `none`.
std::uint32_t without_rest(std::size_t states, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges,
                           const std::vector<std::uint32_t>& at_rest) {
  std::vector<std::uint32_t> begins(states + 1), sources(edges.size());
  for (const auto& [from, to] : edges) ++begins[to + 1];
  for (std::size_t i = 1; i <= states; ++i) begins[i] += begins[i - 1];
  auto next = begins;
  for (const auto& [from, to] : edges) sources[next[to]++] = from;
  std::vector<bool> ends(states);
  auto open = at_rest;
  for (const auto s : open) ends[s] = true;
  while (!open.empty()) {
    const auto s = open.back();
    open.pop_back();
    for (auto k = begins[s]; k < begins[s + 1]; ++k)
      if (!ends[sources[k]]) {
        ends[sources[k]] = true;
        open.push_back(sources[k]);
      }
  }
  for (std::uint32_t s = 0; s < states; ++s)
    if (!ends[s]) return s;
  return none;
}

bool is_fault(const action& a) {
  switch (a.what) {
  case act::start:
  case act::step_to_end:
  case act::restart:
  case act::heal:
  case act::thaw:
    return false;
  default:
    return !a.goes_on();
  }
}

void note_reach(const world& w, const std::vector<action>& next, model_reach& reached) {
  for (byte m = 0; m < w.migrations; ++m) {
    const auto& move = w.moves.at(m);
    if (!move.source) continue;
    reached.stages = std::max(reached.stages, static_cast<std::uint8_t>(move.source->stages()));
    reached.tail = reached.tail || (move.source->commit_sent() && move.parked_tokens > move.accepted);
    reached.known = reached.known || (move.source->commit_sent() && move.known > 0);
    if (move.source->where() != migration_source::phase::extending) continue;
    reached.extends = true;
    reached.fault_extending = reached.fault_extending || std::ranges::any_of(next, is_fault);
  }
}

} // namespace

exploration explore(const model_case& bounds, exploration_limits limits) {
  const auto began = std::chrono::steady_clock::now();
  exploration result;
  seen_states seen;
  std::vector<origin> origins;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<std::uint32_t> at_rest;
  struct open_state {
    std::uint32_t number, depth;
    world w;
  };
  std::deque<open_state> open;
  std::string bytes;
  std::vector<action> actions;

  const auto finish = [&](std::string broken, std::uint32_t state) {
    result.broken = std::move(broken);
    if (state != none) result.path = path_to(origins, state);
    result.states = origins.size();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return result;
  };

  auto first = first_world(bounds);
  serialise(bounds, first, bytes);
  seen.insert(bytes);
  origins.push_back({});
  open.push_back({0, 0, std::move(first)});
  while (!open.empty()) {
    const auto here = std::move(open.front());
    open.pop_front();
    result.depth = std::max(result.depth, here.depth);
    auto probe = here.w;
    rules present(bounds, probe);
    if (const auto* broken = present.broken_promise()) return finish(broken, here.number);
    present.possible(actions);
    note_reach(here.w, actions, result.reached);
    if (std::ranges::none_of(actions, &action::goes_on)) {
      at_rest.push_back(here.number);
      if (const auto* broken = present.broken_at_rest()) return finish(broken, here.number);
    }
    for (const auto& a : actions) {
      ++result.transitions;
      auto after = here.w;
      std::string failure;
      try {
        rules(bounds, after).perform(a);
      } catch (const contract_violation& e) {
        failure = e.what();
      }
      if (!failure.empty()) {
        origins.push_back({here.number, a});
        return finish("a contract is violated: " + failure, static_cast<std::uint32_t>(origins.size() - 1));
      }
      if (after.broken != nullptr) {
        origins.push_back({here.number, a});
        return finish(after.broken, static_cast<std::uint32_t>(origins.size() - 1));
      }
      serialise(bounds, after, bytes);
      const auto [number, fresh] = seen.insert(bytes);
      if (limits.check_rest_reachable && a.goes_on()) edges.emplace_back(here.number, number);
      if (!fresh) continue;
      origins.push_back({here.number, a});
      if (origins.size() > limits.states_max) return finish({}, none);
      open.push_back({number, here.depth + 1, std::move(after)});
    }
  }
  result.complete = true;
  result.at_rest = at_rest.size();
  if (limits.check_rest_reachable)
    if (const auto s = without_rest(origins.size(), edges, at_rest); s != none)
      return finish("nothing that happens from here leads to rest", s);
  return finish({}, none);
}

} // namespace godwit::protocols::model
