#include <godwit/runtime/trace/analysis/sequence.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <map>

namespace godwit::runtime::trace::analysis {

namespace {

class sequence_maker {
public:
  sequence_maker(const index& of, std::size_t steps_max) : of_(of), steps_max_(steps_max) {}

  sequence run(const std::vector<position>& events) {
    for (const auto p : events) {
      if (!shown(p)) continue;
      if (out_.steps.size() == steps_max_)
        ++out_.left_out;
      else
        add(p);
    }
    std::stable_sort(out_.steps.begin(), out_.steps.end(), [this](const auto& a, const auto& b) {
      return std::pair(a.queued_ns, of_.depth(a.what)) < std::pair(b.queued_ns, of_.depth(b.what));
    });
    return std::move(out_);
  }

private:
  // What was sent shows where it was delivered.
  [[nodiscard]] bool shown(position p) const {
    const auto kind = of_[p].kind;
    if (kind == event_kind::delivery || kind == event_kind::note || kind == event_kind::span) return true;
    return kind == event_kind::sent && delivered(p) == nowhere;
  }

  [[nodiscard]] position delivered(position sent) const {
    for (const auto effect : of_.effects(sent))
      if (of_[effect].kind == event_kind::delivery) return effect;
    return nowhere;
  }

  std::size_t participant(actor_id who, std::string_view role = {}) {
    const auto [at, fresh] = numbers_.try_emplace({who, role}, out_.participants.size());
    if (fresh) out_.participants.push_back(role.empty() ? label(of_.source(), who) : std::string(role));
    return at->second;
  }

  // Who is no actor has a name by what it does.
  std::size_t outsider(position p) {
    const auto cause = of_.cause(p);
    if (cause == nowhere || of_[cause].kind != event_kind::span) return participant(of_[p].sender);
    return source_of(cause);
  }

  std::size_t source_of(position span) {
    const auto& e = of_[span];
    if (e.sender) return participant(e.sender);
    const auto& name = of_.source().name_of(e);
    return name == "http.request" ? participant(e.sender, "HTTP") : participant(e.sender);
  }

  void add(position p) {
    const auto& e = of_[p];
    sequence_step s;
    s.what = p;
    s.text = short_name(of_.source(), e);
    s.queued_ns = of_.queued(p) - of_.first_ns();
    s.queue_ns = e.begin_ns - e.queued_ns;
    s.handling_ns = e.end_ns - e.begin_ns;
    if (e.kind == event_kind::note || e.kind == event_kind::span) {
      s.note = true;
      s.from = s.to = source_of(p);
      for (const auto& a : e.attributes)
        if (s.text.size() < 200) s.text += " " + harmless(a.name) + "=" + shortened(harmless(a.value), 40);
    } else {
      s.note = e.message == message_kind::timer || (!e.sender && e.cause.process == e.id.process && waited_for(p));
      s.to = participant(e.receiver);
      s.from = s.note ? s.to : e.sender ? participant(e.sender) : outsider(p);
      s.answer = e.message == message_kind::answer || e.message == message_kind::failure;
      s.failed = e.message == message_kind::failure;
      s.lost = e.kind == event_kind::sent;
    }
    out_.steps.push_back(std::move(s));
  }

  // An actor's own device, timer or transfer was ready.
  [[nodiscard]] bool waited_for(position p) const {
    const auto cause = of_.cause(p);
    return cause != nowhere && of_[cause].receiver == of_[p].receiver;
  }

  const index& of_;
  std::size_t steps_max_;
  sequence out_;
  std::map<std::pair<actor_id, std::string_view>, std::size_t> numbers_;
};

} // namespace

sequence make_sequence(const index& of, const std::vector<position>& events, std::size_t steps_max) {
  return sequence_maker(of, steps_max).run(events);
}

} // namespace godwit::runtime::trace::analysis
