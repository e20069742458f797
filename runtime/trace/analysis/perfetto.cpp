#include <godwit/runtime/trace/analysis/exports.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include "trace/analysis/piece_writer.hpp"
#include "trace/analysis/starts.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace godwit::runtime::trace::analysis {

namespace {

/// Lanes for spans of one name. Each span gets the lowest that is free as it begins, found in O(log lanes): a tree of
/// minima, whose leaves say until when each lane is busy.
class busy_lanes {
public:
  std::uint32_t take(std::int64_t begin, std::int64_t end) {
    if (least_[1] > begin) grow();
    std::size_t at = 1;
    while (at < lanes()) at = 2 * at + (least_[2 * at] > begin ? 1 : 0);
    const auto lane = static_cast<std::uint32_t>(at - lanes());
    least_[at] = end;
    while ((at /= 2) > 0) least_[at] = std::min(least_[2 * at], least_[2 * at + 1]);
    return lane;
  }

private:
  static constexpr auto unused = std::numeric_limits<std::int64_t>::min();
  [[nodiscard]] std::size_t lanes() const { return least_.size() / 2; }

  // All of them are busy, so that the new ones' half has the least.
  void grow() {
    std::vector<std::int64_t> twice(2 * least_.size(), unused);
    for (std::size_t from = 1; from < least_.size(); from *= 2) // a row lies behind one of the new half's size
      std::copy_n(least_.begin() + static_cast<std::ptrdiff_t>(from), from,
                  twice.begin() + static_cast<std::ptrdiff_t>(2 * from));
    least_ = std::move(twice);
  }

  std::vector<std::int64_t> least_ = {unused, unused}; ///< [1] is the root, [i]'s children are [2i] and [2i + 1]
};

// Format: "Trace Event Format" (Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
class perfetto_writer {
public:
  perfetto_writer(const index& of, const std::vector<position>& events, const sink& out)
      : of_(of), events_(events), out_(out), chosen_(of.size()) {
    for (const auto p : events) chosen_[p] = true;
  }

  void run() {
    place();
    out_.raw("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    metadata();
    for (const auto p : events_) {
      slice(p);
      arrow(p);
      if (!out_.pass_on()) return;
    }
    if (!mailboxes()) return;
    out_.raw("\n]}\n");
    out_.flush();
  }

private:
  struct track {
    std::uint32_t process = 0;
    std::uint32_t number = 0; ///< Chrome's thread
  };
  using lane_key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>; // process, span's name, lane

  // Actors first, then lanes of spans: each lane holds spans that do not overlap. In a simulation many things happen at
  // one moment; they are shown one after the other, by some ns.
  void place() {
    tracks_.resize(of_.size());
    from_.resize(of_.size());
    for (const auto p : events_) {
      const auto& e = of_[p];
      if (e.kind == event_kind::delivery) actor_track(e.receiver);
      if (e.kind == event_kind::note) actor_track({e.id.process, e.sender.id});
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, busy_lanes> lanes;
    std::map<actor_id, std::int64_t> ends;
    for (const auto p : events_) {
      const auto& e = of_[p];
      from_[p] = of_.begin(p);
      if (e.kind == event_kind::delivery) tracks_[p] = actor_track(e.receiver);
      if (e.kind == event_kind::note) tracks_[p] = actor_track({e.id.process, e.sender.id});
      if (e.kind == event_kind::delivery) {
        const auto [at, fresh] = ends.try_emplace(e.receiver, from_[p]);
        from_[p] = std::max(from_[p], at->second);
        if (const auto cause = maker(p); cause != nowhere) from_[p] = std::max(from_[p], from_[cause]);
        at->second = added(from_[p], length(p));
      }
      if (e.kind != event_kind::span) continue;
      const auto lane = lanes[{e.id.process, e.name}].take(of_.begin(p), added(of_.begin(p), length(p)));
      tracks_[p] = lane_track({e.id.process, e.name, lane});
    }
  }

  track actor_track(actor_id who) {
    const auto [at, fresh] = actors_.try_emplace(who, track{who.process, 0});
    if (fresh) number(at->second);
    return at->second;
  }
  track lane_track(const lane_key& key) {
    const auto [at, fresh] = lanes_.try_emplace(key, track{std::get<0>(key), 0});
    if (fresh) number(at->second);
    return at->second;
  }
  // Threads' numbers are unique among all processes', and none is a process's: readers take them for Linux's.
  void number(track& t) {
    t.number = static_cast<std::uint32_t>(of_.source().processes.size()) + ++threads_;
    used_.insert(t.process);
  }

  /// The slice in which an event's message was made, if it is shown.
  [[nodiscard]] position maker(position p) const {
    auto cause = cause_past_starts(of_, p);
    if (cause != nowhere && of_[cause].kind == event_kind::sent) cause = cause_past_starts(of_, cause);
    if (cause == nowhere || !chosen_[cause]) return nowhere;
    const auto kind = of_[cause].kind;
    return kind == event_kind::delivery || kind == event_kind::span ? cause : nowhere;
  }

  /// A slice without length takes no arrows.
  [[nodiscard]] std::int64_t length(position p) const {
    return std::max<std::int64_t>(of_[p].end_ns - of_[p].begin_ns, 1);
  }
  [[nodiscard]] std::int64_t since_start(std::int64_t ns) const { return ns - of_.first_ns(); }

  piece_writer& begin(char phase, track where, std::int64_t at_ns) {
    out_.raw(first_ ? "{\"ph\":\"" : ",\n{\"ph\":\"").raw(std::string_view(&phase, 1));
    first_ = false;
    out_.raw("\",\"pid\":").number(where.process + 1);
    if (where.number != 0) out_.raw(",\"tid\":").number(where.number);
    if (phase != 'M') out_.raw(",\"ts\":").microseconds(since_start(at_ns));
    return out_;
  }

  void name(std::string_view what, track where, std::string_view text) {
    begin('M', where, 0).raw(",\"name\":\"").raw(what).raw("\",\"args\":{\"name\":").string(text).raw("}}");
  }

  void metadata() {
    const auto& r = of_.source();
    for (std::uint32_t p = 0; p < r.processes.size(); ++p)
      if (used_.contains(p)) name("process_name", {p, 0}, r.processes[p].name);
    for (const auto& [who, where] : actors_) name("thread_name", where, label(r, who));
    for (const auto& [key, where] : lanes_) {
      const auto lane = std::get<2>(key);
      name("thread_name", where, r.names[std::get<1>(key)] + (lane > 0 ? " " + std::to_string(lane + 1) : ""));
    }
  }

  void slice(position p) {
    const auto& e = of_[p];
    const auto instant = e.kind == event_kind::note;
    if (e.kind != event_kind::delivery && e.kind != event_kind::span && !instant) return;
    begin(instant ? 'i' : 'X', tracks_[p], from_[p]);
    if (instant)
      out_.raw(",\"s\":\"t\"");
    else
      out_.raw(",\"dur\":").microseconds(length(p));
    out_.raw(",\"cat\":\"").raw(to_string(e.kind)).raw("\",\"name\":").string(short_name(of_.source(), e));
    out_.raw(",\"args\":{\"event\":").string(label(of_.source(), e.id));
    // One with several answers has all their numbers as an attribute.
    if (of_.about(p) != 0 && attribute_of(e, "request").empty())
      out_.raw(",\"request\":\"").number(of_.about(p)).raw("\"");
    if (e.kind == event_kind::delivery) {
      out_.raw(",\"from\":").string(label(of_.source(), e.sender));
      out_.raw(",\"kind\":\"")
          .raw(to_string(e.message))
          .raw("\",\"queued_us\":")
          .microseconds(e.begin_ns - e.queued_ns);
      out_.raw(",\"bytes\":").number(e.bytes).raw(",\"depth\":").number(e.depth);
      if (!e.text.empty()) out_.raw(",\"content\":").string(e.text);
    }
    std::set<std::string_view> names{"event"};
    for (const auto& a : e.attributes)
      if (names.insert(a.name).second) out_.raw(",").string(a.name).raw(":").string(a.value);
    out_.raw("}}");
  }

  // From the slice in which a message was made, or a span began, to its own.
  void arrow(position p) {
    const auto kind = of_[p].kind;
    if (kind != event_kind::delivery && kind != event_kind::span) return;
    const auto cause = maker(p);
    if (cause == nowhere) return;
    const auto made = std::clamp(of_.queued(p), from_[cause], from_[cause] + length(cause) - 1);
    if (made > from_[p]) return; // clocks that do not agree: no arrow leads back in time
    const auto id = ++arrows_;
    begin('s', tracks_[cause], made).raw(",\"cat\":\"cause\",\"name\":\"cause\",\"id\":").number(id).raw("}");
    begin('f', tracks_[p], from_[p])
        .raw(",\"bp\":\"e\",\"cat\":\"cause\",\"name\":\"cause\",\"id\":")
        .number(id)
        .raw("}");
  }

  // Messages that were queued and not yet taken.
  bool mailboxes() {
    std::map<actor_id, std::vector<std::pair<std::int64_t, int>>> changes;
    for (const auto p : events_) {
      if (of_[p].kind != event_kind::delivery) continue;
      changes[of_[p].receiver].emplace_back(of_.queued(p), 1);
      changes[of_[p].receiver].emplace_back(of_.begin(p), -1);
    }
    for (auto& [who, list] : changes) {
      std::sort(list.begin(), list.end());
      const auto title = "mailbox " + label(of_.source(), who);
      std::int64_t waiting = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        waiting += list[i].second;
        if (i + 1 < list.size() && list[i + 1].first == list[i].first) continue;
        begin('C', {who.process, 0}, list[i].first).raw(",\"name\":").string(title);
        out_.raw(",\"args\":{\"messages\":").number(waiting).raw("}}");
        if (!out_.pass_on()) return false;
      }
    }
    return true;
  }

  const index& of_;
  const std::vector<position>& events_;
  piece_writer out_;
  std::vector<bool> chosen_;
  std::vector<track> tracks_;
  std::map<actor_id, track> actors_;
  std::map<lane_key, track> lanes_;
  std::vector<std::int64_t> from_; ///< where a slice begins
  std::set<std::uint32_t> used_;   ///< processes
  std::uint32_t threads_ = 0;
  std::uint64_t arrows_ = 0;
  bool first_ = true;
};

} // namespace

void to_perfetto(const index& of, const std::vector<position>& events, const sink& out) {
  perfetto_writer(of, events, out).run();
}

} // namespace godwit::runtime::trace::analysis
