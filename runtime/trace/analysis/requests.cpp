#include <godwit/runtime/trace/analysis/requests.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include "trace/analysis/request_walk.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace godwit::runtime::trace::analysis {

namespace {

bool is_http(const index& of, position p) {
  return of[p].kind == event_kind::span && of.source().name_of(of[p]) == "http.request";
}

bool names(std::string_view list, std::uint64_t request) {
  const auto all = numbers_in(list);
  return std::find(all.begin(), all.end(), request) != all.end();
}

bool names(const event& e, std::uint64_t request) {
  return names(attribute_of(e, "request"), request) || names(attribute_of(e, "requests"), request);
}

/// What a request's step was asked by, its answer, and the tokens that came of it.
void add_around_step(const index& of, position step, std::vector<position>& out) {
  const auto asked = of.cause(step);
  if (asked == nowhere || of[asked].kind != event_kind::delivery) return;
  out.push_back(asked);
  for (const auto p : of.effects(asked))
    if (of[p].kind == event_kind::delivery && of[p].outside) out.push_back(p); // the device was ready
  const auto answered = of.answer(asked);
  if (answered == nowhere) return;
  out.push_back(answered);
  for (const auto p : of.effects(answered)) {
    if (!of.source().name_of(of[p]).ends_with("token_updates")) continue;
    out.push_back(p);
    if (of[p].kind != event_kind::sent) continue;
    const auto delivered = of.effects(p);
    out.insert(out.end(), delivered.begin(), delivered.end());
  }
}

/// What comes before a request has a number: it is submitted, and its home asks who should run it. What its home goes
/// on to do for all, like looking at deadlines, belongs to it no longer than it lasts.
void add_beginning(const index& of, position root, std::int64_t last_ns, std::vector<position>& out) {
  constexpr std::size_t events_max = 64;
  std::vector<position> todo{root};
  for (std::size_t i = 0; i < todo.size() && i < events_max; ++i) {
    const auto p = todo[i];
    if (p != root && (of.about(p) != 0 || of.begin(p) > last_ns)) continue;
    out.push_back(p);
    if (const auto answer = of.answer(p); answer != nowhere) out.push_back(answer);
    const auto below = of.effects(p);
    todo.insert(todo.end(), below.begin(), below.end());
  }
}

/// What led to the decision where it should run. A scheduler decides upon all that wait, because of the first one's
/// question: so up from its own answer, and from what was noted of it, to what is about somebody.
void add_deciding(const index& of, position p, std::vector<position>& out) {
  constexpr int causes_max = 16;
  const std::string_view name = of.source().name_of(of[p]);
  const auto decided =
      of[p].kind == event_kind::note ? name == "decision.dispatch" : name.ends_with("dispatch_decision");
  if (!decided) return;
  auto cause = of.cause(p);
  for (int i = 0; i < causes_max && cause != nowhere && of.about(cause) == 0; ++i, cause = of.cause(cause))
    out.push_back(cause);
}

/// How the answer ended: "200", and where that was not all there is to say, what else there is. A stream has the status
/// of its beginning, however it ends.
std::string outcome_of(const event& http) {
  std::string out(attribute_of(http, "status"));
  if (out.empty() && !attribute_of(http, "abandoned").empty()) out = "abandoned";
  const auto add = [&out](std::string_view what) {
    if (!what.empty()) (out += out.empty() ? "" : ", ") += what;
  };
  if (const auto outcome = attribute_of(http, "outcome"); outcome != "complete") add(outcome);
  add(attribute_of(http, "error"));
  return out;
}

void add_http(const index& of, position p, std::map<std::uint64_t, model_request>& all) {
  auto ids = numbers_in(attribute_of(of[p], "request"));
  if (ids.empty() && of[p].request != 0) ids.push_back(of[p].request);
  for (const auto id : ids) {
    auto& r = all[id];
    r.id = id;
    r.http = p;
    r.client_id = attribute_of(of[p], "client_id");
    r.target = attribute_of(of[p], "target");
    r.outcome = outcome_of(of[p]);
  }
}

// Where there is no HTTP, as in simulations, a request begins as a message to its home, which has no number for it yet.
void add_submission(const index& of, model_request& r) {
  constexpr auto causes_max = 16;
  auto p = r.first;
  for (auto i = 0; i < causes_max && p != nowhere; ++i, p = of.cause(p)) {
    if (of[p].kind != event_kind::delivery || !of.source().name_of(of[p]).ends_with("submit_request")) continue;
    r.first = p;
    r.begin_ns = of.queued(p);
    return;
  }
}

/// What the home notes as it gives a request up, with its outcome; all other notes of ownership are of one that goes
/// on.
bool is_last_note(const index& of, position p) {
  if (of[p].kind != event_kind::note || of.source().name_of(of[p]) != "ownership") return false;
  const auto what = attribute_of(of[p], "what");
  constexpr std::array<std::string_view, 6> others{"refused", "dispatched", "lost", "claimed", "reclaimed", "disowned"};
  return !what.empty() && std::ranges::find(others, what) == others.end();
}

} // namespace

std::vector<std::uint64_t> numbers_in(std::string_view text) {
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t n = 0;
    const auto [stop, error] = std::from_chars(text.data() + i, text.data() + text.size(), n);
    const auto read = static_cast<std::size_t>(stop - text.data()) - i;
    if (error == std::errc{}) out.push_back(n);
    i += std::max<std::size_t>(read, 1);
  }
  return out;
}

std::vector<model_request> model_requests(const index& of) {
  std::map<std::uint64_t, model_request> all;
  std::map<std::uint64_t, position> over; // the notes that they were
  for (position p = 0; p < of.size(); ++p) {
    if (is_http(of, p)) add_http(of, p, all);
    const auto id = of.about(p);
    // An instance measures its device before it serves, with requests that nobody made; in recordings of before version
    // 0.3.10 with numbers that others get later.
    if (id == 0 || (is_step(of, p) && !all.contains(id))) continue;
    auto& r = all[id];
    r.id = id;
    ++r.events;
    if (r.first == nowhere) {
      r.first = p;
      r.begin_ns = of.queued(p);
      r.end_ns = of.end(p);
    }
    r.last = p;
    r.begin_ns = std::min(r.begin_ns, of.queued(p));
    r.end_ns = std::max(r.end_ns, of.end(p));
    if (r.client_id.empty() && of[p].kind == event_kind::note) r.client_id = attribute_of(of[p], "client_id");
    if (is_last_note(of, p)) over[id] = p;
  }
  std::vector<model_request> out;
  for (auto& [id, r] : all) {
    if (r.http != nowhere) {
      r.begin_ns = of.begin(r.http);
      r.end_ns = of.end(r.http);
      if (r.first == nowhere) r.first = r.last = r.http;
    } else {
      add_submission(of, r);
      // Somebody may ask for its history long after.
      if (const auto end = over.find(id); end != over.end()) {
        const auto said = end->second, upon = of.cause(said);
        r.end_ns = std::min(r.end_ns, of.end(upon == nowhere ? said : upon));
        r.outcome = attribute_of(of[said], "what");
      }
    }
    out.push_back(std::move(r));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return out;
}

std::optional<model_request> find_request(const std::vector<model_request>& all, std::string_view text) {
  if (all.empty()) return std::nullopt;
  if (text == "last") return all.back();
  if (text == "slowest")
    return *std::max_element(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.duration_ns() < b.duration_ns(); });
  std::uint64_t id = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const auto is_number = error == std::errc{} && stop == text.data() + text.size();
  for (const auto& r : all)
    if (is_number ? r.id == id : !text.empty() && r.client_id == text) return r;
  return std::nullopt;
}

std::vector<position> events_of(const index& of, std::uint64_t request) {
  std::vector<position> out;
  auto root = nowhere;
  auto first = nowhere; // that is no step
  std::int64_t last_ns = of.first_ns();
  for (position p = 0; p < of.size(); ++p) {
    if (is_http(of, p) && names(of[p], request)) root = p;
    if (is_step(of, p) || (of.about(p) != request && root != p)) continue;
    if (first == nowhere) first = p;
    last_ns = std::max(last_ns, of.end(p));
    out.push_back(p);
  }
  if (first == nowhere) return out;
  if (root == nowhere) {
    model_request r;
    r.first = first;
    add_submission(of, r);
    root = r.first;
  }
  for (std::size_t i = 0, own = out.size(); i < own; ++i) add_deciding(of, out[i], out);
  add_beginning(of, root, last_ns, out);
  for (auto p = first; p < of.size(); ++p) {
    if (of.begin(p) > last_ns) break;
    if (!is_step(of, p) || !names(of[p], request)) continue;
    out.push_back(p);
    add_around_step(of, p, out);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<position> reachable(const index& of, position root) {
  std::vector<position> out;
  if (root >= of.size()) return out;
  std::vector<bool> seen(of.size()); // what a broken file may contain: a cycle
  std::vector<position> todo{root};
  seen[root] = true;
  while (!todo.empty()) {
    const auto p = todo.back();
    todo.pop_back();
    out.push_back(p);
    for (const auto effect : of.effects(p)) {
      if (seen[effect]) continue;
      seen[effect] = true;
      todo.push_back(effect);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

} // namespace godwit::runtime::trace::analysis
