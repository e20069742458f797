#include <godwit/runtime/trace/analysis/requests.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <charconv>
#include <map>

namespace godwit::runtime::trace::analysis {

namespace {

bool is_http(const index& of, position p) {
  return of[p].kind == event_kind::span && of.source().name_of(of[p]) == "http.request";
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
    r.outcome = attribute_of(of[p], "status");
    if (r.outcome.empty() && !attribute_of(of[p], "abandoned").empty()) r.outcome = "abandoned";
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
  for (position p = 0; p < of.size(); ++p) {
    if (is_http(of, p)) add_http(of, p, all);
    const auto id = of.about(p);
    if (id == 0) continue;
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
  }
  std::vector<model_request> out;
  for (auto& [id, r] : all) {
    if (r.http != nowhere) {
      r.begin_ns = of.begin(r.http);
      r.end_ns = of.end(r.http);
      if (r.first == nowhere) r.first = r.last = r.http;
    } else {
      add_submission(of, r);
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
  for (position p = 0; p < of.size(); ++p) {
    const auto& e = of[p];
    auto wanted = of.about(p) == request;
    if (!wanted && e.kind == event_kind::span)
      for (const auto* const name : {"request", "requests"}) {
        const auto named = numbers_in(attribute_of(e, name));
        wanted = wanted || std::find(named.begin(), named.end(), request) != named.end();
      }
    if (wanted) out.push_back(p);
  }
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
