#include <godwit/runtime/sim/replay.hpp>

#include "actor/letter.hpp"
#include "sim/replayer.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace godwit::runtime::sim {

namespace {

/// Why it cannot be replayed; empty: it can.
std::string obstacle(const trace::recording& all) {
  using trace::event_kind;
  if (all.processes.empty() || all.events.empty()) return "it is empty";
  if (all.holed) return "it is damaged, and events are missing: " + all.remarks.front();
  std::set<std::uint64_t> begun;
  for (const auto& e : all.events)
    if (e.kind == event_kind::spawned) begun.insert(e.receiver.id);
  std::uint64_t messages = 0, with_content = 0;
  for (const auto& e : all.events) {
    if (e.kind == event_kind::gap)
      return std::to_string(e.count) + " events were lost while it was recorded; record again with more room";
    if (e.id.process != 0) return "it is of several processes; replay the file of one";
    if (e.kind == event_kind::note && all.name_of(e) == "recording")
      return "what is recorded was switched meanwhile; record all of it from the start";
    if (e.kind == event_kind::delivery && !begun.contains(e.receiver.id))
      return "it does not reach back to the process's start (a dump never does); record a file from the start";
    if (e.kind != event_kind::delivery || all.name_of(e).empty()) continue;
    ++messages;
    with_content += !e.content.empty();
  }
  if (with_content == 0)
    return messages == 0 ? "it holds no messages" : "it holds no contents; record with level content and prompts kept";
  return {};
}

} // namespace

async::expected<std::unique_ptr<replay>> replay::make(trace::recording recorded, report_function report) {
  if (auto why = obstacle(recorded); !why.empty())
    return async::error{async::error_code::unsupported, "cannot replay: " + why};
  return std::unique_ptr<replay>(
      new replay(std::make_unique<detail::replayer>(std::move(recorded), std::move(report))));
}

replay::replay(std::unique_ptr<detail::replayer> made) : replayer_(std::move(made)) {}
replay::~replay() = default;
actor_host& replay::host() noexcept { return replayer_->host(); }
void replay::know(const std::vector<const message_type*>& types) { replayer_->know(types); }
replay_result replay::run(const replay_limits& limits) { return replayer_->run(limits); }

namespace detail {

namespace {
constexpr std::uint64_t listed_max = 100; // a recording may say anything
}

using runtime::detail::letter;
using trace::event_kind;

void replayer::differs(std::string what, std::string recorded, std::string replayed) {
  if (!result_.difference.empty()) return;
  result_.difference = std::move(what);
  result_.recorded = std::move(recorded);
  result_.replayed = std::move(replayed);
  if (now_) result_.at = now_->id;
}

std::string replayer::describe(const trace::event& e, std::string_view name) const {
  return trace::analysis::in_words(recorded_, e, name);
}

std::string replayer::made_then(const event& e) const {
  std::string out;
  for (auto n = e.first + 1; n < e.first + std::min(e.made, listed_max); ++n) {
    const auto found = by_id_.find(n);
    const auto* made = found == by_id_.end() ? nullptr : found->second;
    const auto name = made ? recorded_.name_of(*made) : std::string{};
    out += "\n    " + (made ? describe(*made, name)
                            : trace::analysis::label(recorded_, trace::event_id(0, n)) + " that was never handled");
  }
  return out;
}

std::string replayer::made_now(const event& r) const {
  std::string out;
  for (auto n = r.first + 1; n < r.first + std::min(r.made, listed_max); ++n) {
    const auto found = held_.find(n);
    const auto* l = found == held_.end() ? nullptr : letter::of(*found->second.message);
    out += "\n    " + trace::analysis::label(recorded_, trace::event_id(0, n)) + " ";
    if (found != held_.end()) out += "-> " + std::to_string(found->second.receiver.id()) + " ";
    out += l ? std::string(l->type->name) : "of the runtime, or no message";
  }
  return out;
}

void replayer::compare(const event& e) {
  const event* handled = nullptr;
  std::vector<std::pair<event, std::string>> all;
  recorder_->drain([&](event& one, std::string_view name) { all.emplace_back(std::move(one), name); });
  // First what it noted, which says more than that its messages differ.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.id < b.first.id; });
  std::string name;
  for (const auto& [one, its_name] : all) {
    if (one.kind == event_kind::note || one.kind == event_kind::sent) compare_beside(one, its_name);
    if (one.id.number == e.id.number && one.kind == e.kind) {
      handled = &one;
      name = its_name;
    }
  }
  if (!result_.difference.empty()) return;
  if (!handled)
    return differs("a message was not handled", describe(e, recorded_.name_of(e)), "its receiver did not take it");
  const auto& r = *handled;
  const bool same = r.message == e.message && r.receiver.id == e.receiver.id && r.sender.id == e.sender.id &&
                    name == recorded_.name_of(e) && r.made == e.made && r.resumed == e.resumed && r.wait == e.wait &&
                    r.request == e.request && (e.outside || (r.content == e.content && r.text == e.text));
  if (!same)
    differs(r.made != e.made ? "a message was handled in another way" : "a message differs",
            describe(e, recorded_.name_of(e)) + made_then(e), describe(r, name) + made_now(r));
}

void replayer::compare_beside(const event& replayed, std::string_view name) {
  if (name.starts_with("input:")) return;
  const bool sent = replayed.kind == event_kind::sent;
  if (!sent) ++result_.notes;
  const auto found = by_id_.find(replayed.id.number);
  if (found == by_id_.end())
    return differs(sent ? "something was sent to another process that was not" : "something was noted that was not",
                   "nothing", describe(replayed, name));
  const auto& was = *found->second;
  if (was.kind != replayed.kind || recorded_.name_of(was) != name || was.attributes != replayed.attributes ||
      was.request != replayed.request || was.receiver.id != replayed.receiver.id)
    differs(sent ? "something else was sent to another process" : "a decision or state differs",
            describe(was, recorded_.name_of(was)), describe(replayed, name));
}

} // namespace detail

} // namespace godwit::runtime::sim
