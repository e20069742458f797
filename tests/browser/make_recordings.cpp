#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <fstream>
#include <iostream>
#include <set>
#include <string>

// The recordings that the browser test looks at, and what it must find there: browser_recordings FOLDER

namespace godwit {

namespace {

namespace trace = runtime::trace;
using trace::analysis::label;

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

/// Counted as simply as can be: one node an actor that is heard of, one edge a pair that exchanges messages.
std::string expected(const trace::recording& r) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> nodes;
  std::set<std::pair<std::pair<std::uint32_t, std::uint64_t>, std::pair<std::uint32_t, std::uint64_t>>> edges;
  std::set<std::uint64_t> requests;
  std::size_t deliveries = 0;
  const trace::event* chosen = nullptr; // a delivery that another one caused
  std::map<trace::event_id, const trace::event*> by_id;
  for (const auto& e : r.events) by_id[e.id] = &e;
  for (const auto& e : r.events) {
    if (e.request != 0) requests.insert(e.request);
    if (e.kind == trace::event_kind::spawned) nodes.emplace(e.receiver.process, e.receiver.id);
    if (e.kind != trace::event_kind::delivery) continue;
    ++deliveries;
    const auto from = std::pair(e.sender ? e.sender.process : e.id.process, e.sender.id);
    const auto to = std::pair(e.receiver.process, e.receiver.id);
    nodes.insert(from);
    nodes.insert(to);
    if (from != to) edges.emplace(from, to);
    const auto cause = by_id.find(e.cause);
    if (e.request == 1 && cause != by_id.end() && cause->second->kind == trace::event_kind::delivery) chosen = &e;
  }
  std::string out = "{\"nodes\":" + std::to_string(nodes.size()) + ",\"edges\":" + std::to_string(edges.size()) +
                    ",\"requests\":" + std::to_string(requests.size()) +
                    ",\"events\":" + std::to_string(r.events.size()) + ",\"deliveries\":" + std::to_string(deliveries);
  if (chosen != nullptr)
    out += ",\"event\":" + quoted(label(r, chosen->id)) + ",\"cause\":" + quoted(label(r, chosen->cause));
  return out + "}\n";
}

trace::recording hostile() {
  support::trace_builder b;
  b.process("<img src=x onerror=\"window.pwned=1\">");
  b.process("</script><script>window.pwned=2</script>", 5'000'000);
  const auto html = b.actor(0, "<img src=x onerror=window.pwned=3>");
  const auto rtl = b.actor(0, "\xe2\x80\xae\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d gnp.exe"); // override, Hebrew
  const auto large = b.actor(1, std::string(10'000, 'W'));
  const auto broken = b.actor(1, "\xff\xfe\x01 __proto__ constructor");
  support::sending how;
  how.request = 1;
  how.text =
      "<script>window.pwned=4</script><iframe src=javascript:window.pwned=5></iframe>" + std::string(20'000, 'x');
  auto cause = b.deliver({}, {}, html, "<svg onload=window.pwned=6>", 1'000, 500, how);
  for (const auto to : {rtl, large, broken, html})
    cause =
        b.deliver(cause, html, to, "__proto__::" + std::string(10'000, 'T') + "\"'`${7*7}", b.end_of(cause), 300, how);
  b.span(cause, 0, html, "http.request", 1'000, 900'000,
         {{"constructor", "<b onmouseover=window.pwned=7>"}, {"status", "<i>200</i>"}, {"request", "1"}}, 1);
  b.gap(0, 600'000, 42);
  return b.finish();
}

bool write(const std::string& folder, const std::string& name, const trace::recording& r) {
  const auto written = trace::write_file(folder + "/" + name + ".gwt", r);
  if (!written) std::cerr << written.error().message << '\n';
  std::ofstream(folder + "/" + name + ".expected.json") << expected(r);
  return written.has_value();
}

bool write_all(const std::string& folder) {
  support::served_settings served;
  served.requests = 8;
  served.instances = 3;
  served.tokens = 12;
  served.node = true;
  served.migration = true;
  return write(folder, "served", support::served(served)) && write(folder, "hostile", hostile()) &&
         write(folder, "large", support::random_forest(7, 230'000, 3));
}

} // namespace

} // namespace godwit

int main(int count, char** arguments) { return count == 2 && godwit::write_all(arguments[1]) ? 0 : 1; }
