#pragma once

#include "trace/ring.hpp"
#include "trace/ticks.hpp"

#include <godwit/runtime/message.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace godwit::runtime::trace::detail {

/// What one thread writes for one recorder.
struct thread_book {
  thread_book(std::uint16_t which, std::size_t events, std::thread::id owner)
      : last(events), next((std::uint64_t{which} + 1) << 40U), next_beside(next | std::uint64_t{1} << 39U),
        number(which), thread(owner) {}
  ring last;
  std::uint64_t next;        ///< number of the thread's next event
  std::uint64_t next_beside; ///< ... of those that no handler makes
  const std::uint16_t number;
  const std::thread::id thread;
  std::uint64_t drained = 0; ///< of `last`; belongs to whoever drains
  event whole;               ///< of the delivery under way, where its content is kept
  std::uint64_t filter_version = 0;
  std::shared_ptr<const filter> keep;
};

class recorder_core;

/// What a thread handles at the moment. All zero: nothing.
struct moment {
  std::uint64_t serial = 0;      ///< of the recorder that `book` belongs to
  recorder_core* core = nullptr; ///< that recorder; there while the thread handles something
  thread_book* book = nullptr;
  std::uint64_t current = 0;   ///< the cause of what is made now
  std::int64_t last_end = 0;   ///< of the delivery before, in the same run of the actor
  bool handling = false;       ///< an actor's message
  bool foreign = false;        ///< ... and just now what a replay leaves out (trace::foreign_call)
  bool pending = false;        ///< `now` is to be written
  bool whole = false;          ///< with its content, which is in book->whole
  bool kept = false;           ///< it passes the filter
  std::int64_t frozen_ns = -1; ///< what the actor's clock shows meanwhile; -1: its time
  slot now;
};

/// Somebody who sees messages.
struct tapped {
  filter chosen;
  tap_function function;
  std::recursive_mutex calling; ///< held meanwhile, and by whoever ends it
  bool over = false;
};

extern constinit thread_local moment here;
/// The same for a recorder that is not that of what the thread handles: somebody reaches into another system.
extern constinit thread_local moment visiting;
extern constinit thread_local replay_source* source_here; ///< of a replay that this thread runs

/// See trace::recorder. The part that actors reach.
class recorder_core : public std::enable_shared_from_this<recorder_core> {
public:
  recorder_core(process who, recorder_settings settings, const runtime::clock* simulated);

  [[nodiscard]] bool on() const noexcept { return level_.load(std::memory_order_relaxed) != level::off; }
  [[nodiscard]] bool whole() const noexcept { return level_.load(std::memory_order_relaxed) == level::content; }
  [[nodiscard]] trace::level level() const noexcept { return level_.load(std::memory_order_relaxed); }
  void set_level(trace::level what) noexcept { level_.store(what, std::memory_order_relaxed); }
  void set_filter(filter keep);
  [[nodiscard]] bool prompts() const noexcept { return settings_.prompts; }

  /// The calling thread's; its book is null where there are too many threads.
  [[nodiscard]] moment& at() { return here.serial == serial_ ? here : enter(); }
  /// What the clock of the actor that this thread handles a message of shows meanwhile; -1: its time.
  [[nodiscard]] std::int64_t frozen_ns() const noexcept { return here.core == this ? here.frozen_ns : -1; }
  [[nodiscard]] std::int64_t ticks() const noexcept { return ticks_.now(); }
  [[nodiscard]] std::int64_t now_ns() const noexcept { return ticks_.now_ns(); }
  [[nodiscard]] const runtime::clock& clock() const noexcept { return ticks_.clock(); }
  [[nodiscard]] std::uint64_t new_number(moment& m) noexcept {
    if (m.book) return m.foreign ? m.book->next_beside++ : m.book->next++;
    miss();
    return 0;
  }
  /// An event of a thread that has no book: lost.
  void miss() noexcept {
    lost_.fetch_add(1, std::memory_order_relaxed);
    unbooked_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Writes the delivery that is over, if there is one.
  void finish(moment& m) {
    if (!m.pending) return;
    m.pending = false;
    m.now.made = static_cast<std::uint32_t>(m.book->next - m.now.first);
    if (!m.kept) return;
    if (m.whole)
      finish_whole(m);
    else
      m.book->last.put(m.now);
  }
  /// Whether this passes the filter. `receiver` gives its name, and is called only where somebody asks.
  template <class Name> [[nodiscard]] bool keeps(moment& m, const slot& s, const Name& receiver) {
    return !filtered_.load(std::memory_order_relaxed) || passes(m, s, receiver());
  }
  /// Whether a note or span passes it.
  [[nodiscard]] bool keeps_beside(std::uint64_t request) const {
    return !filtered_.load(std::memory_order_relaxed) || passes_beside(request);
  }
  /// Shows it to those who tap.
  template <class Name> void show(moment& m, const Name& receiver) {
    if (taps_there_.load(std::memory_order_relaxed)) show_to_all(m, receiver());
  }
  void add_tap(std::shared_ptr<tapped> one);
  void remove_tap(const std::shared_ptr<tapped>& one);
  /// Puts an event into the queue beside the rings.
  void add(event what, std::string_view name);
  void actor_began(const event& what, std::string_view name);
  void actor_ended(actor_id who);
  [[nodiscard]] std::string name_of(actor_id who) const;

  /// With places of their own; one more is that of all others.
  static constexpr std::size_t processes_max = 4096;
  /// Of processes that nobody knows to record, such as commands, each of which is a new one: they leave room for
  /// members that join later.
  static constexpr std::size_t strangers_max = 1024;
  /// The place of the process with that key, a new one where there is none yet and room for it; else `others`.
  /// `records`: it does so itself, for its messages say what caused them.
  std::uint16_t process_by_key(std::uint64_t key, bool records);
  /// The place that those without one of their own share; 0: there are none.
  [[nodiscard]] std::uint16_t others() const noexcept { return others_.load(std::memory_order_relaxed); }
  void name_process(std::uint16_t which, std::uint64_t key, std::string name);
  [[nodiscard]] std::vector<process> processes() const;
  [[nodiscard]] std::vector<std::pair<event, std::string>> living() const;

  [[nodiscard]] recording snapshot(std::chrono::nanoseconds last) const;
  void drain(const recorder::taker& take);
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

private:
  struct beside {
    event what;
    std::string name;
    [[nodiscard]] std::size_t bytes() const noexcept;
  };
  moment& enter();
  [[nodiscard]] bool passes_beside(std::uint64_t request) const;
  void show_to_all(moment& m, std::string_view receiver);
  [[nodiscard]] bool passes(const filter& keep, const slot& s, std::string_view receiver) const;
  void finish_whole(moment& m);
  [[nodiscard]] bool passes(moment& m, const slot& s, std::string_view receiver);
  [[nodiscard]] event to_event(const slot& s, std::uint32_t thread) const;
  void drain_ring(thread_book& book, const recorder::taker& take);

  const std::uint64_t serial_;
  const recorder_settings settings_;
  std::atomic<trace::level> level_;
  std::atomic<bool> filtered_{false};
  std::atomic<bool> taps_there_{false};
  std::atomic<std::uint64_t> filter_version_{1};
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> unbooked_{0}; ///< of these, since the last `drain`, those of threads without a book
  mutable tick_source ticks_;
  std::atomic<std::uint16_t> others_{0}; ///< written under the lock
  mutable std::mutex mutex_;             // for all that follows
  std::shared_ptr<const filter> keep_;
  std::vector<std::shared_ptr<tapped>> taps_;
  std::vector<std::unique_ptr<thread_book>> books_;
  std::vector<process> processes_;
  std::unordered_map<std::uint64_t, std::uint16_t> places_; ///< in processes_, by key
  std::deque<std::shared_ptr<const beside>> beside_;
  std::size_t beside_bytes_ = 0;
  std::uint64_t beside_first_ = 0; ///< number of beside_[0], counting all that ever came
  std::uint64_t beside_drained_ = 0;
  std::map<actor_id, std::pair<event, std::string>> living_;
  std::map<actor_id, std::string> ended_; ///< the last ones' names
  std::deque<actor_id> ended_order_;
};

} // namespace godwit::runtime::trace::detail
