#include "model_diagram.hpp"

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <array>

namespace godwit::protocols::model {
namespace {

constexpr std::size_t width = 10;

std::string name_of(const world& in, byte actor) {
  if (actor == home_actor) return "home";
  if (actor < source_of(0)) return name_of_process(actor);
  const bool source = actor < destination_of(0);
  const auto m = static_cast<std::size_t>(source ? actor - source_of(0) : actor - destination_of(0));
  const auto place = name_of_process(process_of(in, actor));
  return place + (source ? "/src" : "/dst") + (in.migrations > 1 ? std::to_string(m + 1) : std::string{});
}

} // namespace

std::string diagram(const model_case& bounds, const std::vector<action>& path) {
  std::vector<sighting> seen;
  auto w = first_world(bounds);
  std::string end;
  for (const auto& a : path) {
    try {
      rules(bounds, w, &seen).perform(a);
    } catch (const contract_violation& e) {
      end = e.what();
    }
  }
  // The fabric's news are the destination's or the source's own.
  for (auto& s : seen) {
    if (s.from == fabric_actor) s.from = s.to;
    if (s.to == fabric_actor) s.to = s.from;
  }
  std::vector<byte> columns{home_actor, llumlet_of(0)};
  const auto add = [&](byte actor) {
    const bool used = std::ranges::any_of(seen, [&](const sighting& s) { return s.from == actor || s.to == actor; });
    if (used) columns.push_back(actor);
  };
  for (byte m = 0; m < w.migrations; ++m) add(source_of(m));
  for (byte m = 0; m < w.migrations; ++m) add(destination_of(m));
  for (byte i = 1; i < bounds.instances; ++i) columns.push_back(llumlet_of(i));
  const auto position = [&](byte actor) {
    return static_cast<std::size_t>(std::ranges::find(columns, actor) - columns.begin()) * width + 2;
  };

  std::string out;
  std::string line(columns.size() * width, ' ');
  for (const auto c : columns) {
    const auto name = name_of(w, c);
    line.replace(position(c) - 1, name.size(), name);
  }
  while (line.back() == ' ') line.pop_back();
  out += line + "\n";
  for (const auto& s : seen) {
    line.assign(columns.size() * width, ' ');
    for (const auto c : columns) line[position(c)] = '|';
    auto from = position(s.from), to = position(s.to);
    if (from == to) {
      line[from] = '*';
    } else {
      const bool block = s.text.starts_with('~');
      const bool lost = s.text.starts_with("(lost)");
      for (auto x = std::min(from, to) + 1; x < std::max(from, to); ++x) line[x] = block ? '~' : '-';
      line[from < to ? to - 1 : to + 1] = lost ? 'x' : from < to ? '>' : '<';
    }
    out += line + s.text + "\n";
  }
  if (!end.empty()) out += end + "\n";
  return out;
}

} // namespace godwit::protocols::model
