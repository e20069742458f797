#include <godwit/runtime/trace/analysis/sequence.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace godwit::runtime::trace::analysis {

namespace {

constexpr std::size_t period_max = 12;

class sequence_maker {
public:
  sequence_maker(const index& of, const sequence_options& options) : of_(of), options_(options) {}

  sequence run(const std::vector<position>& events) {
    for (const auto p : events)
      if (shown(p)) add(p);
    std::stable_sort(out_.steps.begin(), out_.steps.end(), [this](const auto& a, const auto& b) {
      return std::pair(a.queued_ns, of_.depth(a.what)) < std::pair(b.queued_ns, of_.depth(b.what));
    });
    if (options_.fold) fold();
    if (out_.steps.size() > options_.steps_max) {
      out_.left_out = out_.steps.size() - options_.steps_max;
      out_.steps.resize(options_.steps_max);
    }
    drop_unused();
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
    s.name = s.text = short_name(of_.source(), e);
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

  /// What makes steps alike, as a number for each.
  [[nodiscard]] std::vector<std::size_t> kinds() const {
    std::map<std::tuple<std::size_t, std::size_t, std::uint8_t, std::string_view>, std::size_t> numbers;
    std::vector<std::size_t> out;
    for (const auto& s : out_.steps) {
      const auto flags = s.note | s.answer << 1 | s.failed << 2 | s.lost << 3;
      out.push_back(
          numbers.try_emplace({s.from, s.to, static_cast<std::uint8_t>(flags), s.name}, numbers.size()).first->second);
    }
    return out;
  }

  /// How often the `period` steps at `i` come again right after themselves, in any order: what different threads and
  /// processes do in a round changes places.
  static std::size_t repeats(const std::vector<std::size_t>& kinds, std::size_t i, std::size_t period) {
    const auto round = [&](std::size_t at) {
      std::array<std::size_t, period_max> out{};
      std::copy_n(kinds.begin() + static_cast<std::ptrdiff_t>(at), period, out.begin());
      std::sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(period));
      return out;
    };
    std::size_t n = 0;
    if (i + period > kinds.size()) return n;
    const auto first = round(i);
    for (auto next = i + period; next + period <= kinds.size() && round(next) == first; next += period) ++n;
    return n;
  }

  void fold() {
    std::vector<sequence_step> kept;
    const auto alike = kinds();
    for (std::size_t i = 0; i < out_.steps.size();) {
      std::size_t best = 0;
      std::size_t times = 0;
      for (std::size_t period = 1; period <= period_max; ++period)
        if (const auto n = repeats(alike, i, period); n * period > times * best) {
          best = period;
          times = n;
        }
      const auto worth = best > 0 && times * best >= 3; // a line that says so has to replace more than itself
      const auto here = worth ? best : 1;
      for (std::size_t k = 0; k < here; ++k) kept.push_back(out_.steps[i + k]);
      i += here;
      if (!worth) continue;
      auto last = out_.steps[i + times * best - 1];
      last.repeated_steps = best;
      last.repeats = times;
      last.note = true;
      last.answer = last.failed = last.lost = false;
      last.from = last.to;
      last.name = last.text = (best == 1 ? "the last one" : "the last " + std::to_string(best)) + " again, " +
                              std::to_string(times) + (times == 1 ? " time" : " times");
      last.queue_ns = last.handling_ns = 0;
      kept.push_back(std::move(last));
      i += times * best;
    }
    out_.steps = std::move(kept);
  }

  // Those who appear only in what is left out.
  void drop_unused() {
    std::vector<std::size_t> numbers(out_.participants.size(), out_.participants.size());
    std::vector<std::string> used;
    for (auto& step : out_.steps)
      for (auto* end : {&step.from, &step.to}) {
        if (numbers[*end] == out_.participants.size()) {
          numbers[*end] = used.size();
          used.push_back(out_.participants[*end]);
        }
        *end = numbers[*end];
      }
    out_.participants = std::move(used);
  }

  // An actor's own device, timer or transfer was ready.
  [[nodiscard]] bool waited_for(position p) const {
    const auto cause = of_.cause(p);
    return cause != nowhere && of_[cause].receiver == of_[p].receiver;
  }

  const index& of_;
  const sequence_options& options_;
  sequence out_;
  std::map<std::pair<actor_id, std::string_view>, std::size_t> numbers_;
};

} // namespace

sequence make_sequence(const index& of, const std::vector<position>& events, const sequence_options& options) {
  return sequence_maker(of, options).run(events);
}

} // namespace godwit::runtime::trace::analysis
