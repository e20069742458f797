#pragma once

#include "model_state.hpp"

#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols::model {

/// What can happen next. The first group goes on by itself until nothing is left to do; the second need not happen.
enum class act : byte {
  deliver, ///< the first message of a pair of actors; b: how, see `delivery`
  timer,
  stale_timer,
  lease,
  stale_lease,
  claim_unanswered,
  reclaim_unanswered,
  step,
  park,
  land,
  tell_landed,
  close,
  place,
  learn,
  notice,
  // not of itself
  start,
  step_to_end,
  cancel,
  order_stop,
  preempt,
  evict,
  crash,
  restart,
  cut,
  heal,
  freeze,
  thaw,
  source_dies,
  destination_dies,
  transfer_fails
};
[[nodiscard]] constexpr bool progress(act what) { return what < act::start; }

enum class delivery : byte { plain, twice, overtaken, stop_string, refused, lost };
/// A delivery that is a fault is not progress.
struct action {
  act what = act::deliver;
  byte a = 0, b = 0, c = 0;
  [[nodiscard]] bool goes_on() const { return what == act::deliver ? delivery{b} == delivery::plain : progress(what); }
};

/// For diagrams: what was seen on the way.
struct sighting {
  byte from = nobody, to = nobody; ///< actors; equal: a note at one
  std::string text;
};

/// The rules by which one world becomes the next. Performs on the world that it was given.
class rules {
public:
  rules(const model_case& bounds, world& on, std::vector<sighting>* seen = nullptr)
      : case_(bounds), w_(on), seen_(seen) {}

  /// Everything that may happen next; none of the first group: the world is at rest.
  void possible(std::vector<action>& into) const;
  void perform(const action& chosen);

  /// What must hold in every world; nullptr where it does.
  [[nodiscard]] const char* broken_promise() const;
  /// What must hold where nothing goes on by itself any more.
  [[nodiscard]] const char* broken_at_rest() const;

private:
  // model_actions.cpp
  void possible_deliveries(std::vector<action>& into) const;
  void possible_work(std::vector<action>& into) const;
  void possible_faults(std::vector<action>& into) const;
  [[nodiscard]] bool running(byte process) const;
  [[nodiscard]] bool may_step(byte i, byte r) const;

  void act_on(const action& chosen);
  void deliver_at_once();
  void forget_what_is_void();

  // model_messages.cpp
  void send(byte from, byte to, kind what, byte request, byte epoch, std::array<byte, 5> x, byte generation);
  void send(byte from, byte to, kind what, byte request = 0, byte epoch = 0, std::array<byte, 5> x = {});
  void deliver(byte index, delivery how);
  void receive(const message& m, delivery how);
  void note(byte actor, std::string text);
  void broken(const char* promise);

  // model_home.cpp
  void home_receives(const message& m, delivery how);
  void home_receives_of_unknown(const message& m);
  void accept(byte r, byte epoch, byte first, byte count, bool finish);
  void claim(const message& m, delivery how);
  void reclaim(const message& m);
  void place(byte r, byte i);
  void finish(byte r, finish_reason why);
  void home_loses(byte i);

  // model_llumlet.cpp
  void llumlet_receives(byte i, const message& m, delivery how);
  void step(byte i, byte r, bool last);
  void park(byte i, byte r);
  void preempt(byte i, byte r);
  void drop(byte i, byte r, migration_reason why);
  void clear(byte i, byte r);
  void free_blocks(byte i, block_list& blocks);
  [[nodiscard]] bool take_blocks(byte i, block_list& blocks, byte count);
  void check_kv(byte i, byte r);
  void dispatched(byte i, const message& m);
  void spawn_destination(byte i, byte m, delivery how);
  void llumlet_loses_home(byte i);
  // model_handover.cpp
  void begin_claim(byte m, byte blocks);
  void act_on(byte m, ownership_claim::action what);
  void begin_reclaim(byte i, byte r);
  void act_on(byte i, byte r, ownership_reclaim::action what);

  // model_coordinators.cpp
  void source_receives(byte m, const message& letter);
  void destination_receives(byte m, const message& letter, delivery how);
  void feed(byte m, const migration_source::event& what);
  void feed(byte m, const migration_destination::event& what);
  void perform(byte m, const migration_source::effects& effects);
  void perform(byte m, const migration_destination::effects& effects, bool refuse = false);
  void start(byte r, byte from, byte to);
  void end_source(byte m);
  void end_destination(byte m);
  void coordinator_dies(byte m, bool at_source);
  [[nodiscard]] entry* entry_of(byte m);

  // model_mutants.cpp: the planted bugs around the machines
  [[nodiscard]] bool is(mutant bug) const { return case_.bug == bug; }
  [[nodiscard]] migration_source::effects step_source(byte m, migration_source::event what);
  [[nodiscard]] migration_destination::effects step_destination(byte m, migration_destination::event what);

  // model_fabric.cpp
  void copy(byte m, const migration_source::copy& order);
  void land(byte m, byte which);
  void tell_landed(byte m, byte stage);
  void begin_close(byte m);
  void close(byte m);
  void drop_writes(byte m);
  void lose_source_block(byte i, byte block);

  // model_faults.cpp
  void crash(byte process);
  void restart(byte process);
  void cut(byte p, byte q);
  void notice(byte observer, byte subject);
  void freeze(byte process, bool on);

  [[nodiscard]] request_id id_of(byte r) const { return make_request_id(1, r); }
  [[nodiscard]] byte filled(byte computed, byte index) const;
  [[nodiscard]] byte blocks_of(byte tokens) const;
  [[nodiscard]] instance& at(byte i) { return w_.instances.at(i); }
  [[nodiscard]] const instance& at(byte i) const { return w_.instances.at(i); }
  [[nodiscard]] byte generation_of(byte process) const;

  const model_case& case_;
  world& w_;
  std::vector<sighting>* seen_;
};

[[nodiscard]] std::string describe(const world& in, const action& a);

} // namespace godwit::protocols::model
