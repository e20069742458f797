#include "model_cases.hpp"

#include <utility>

namespace godwit::protocols::model {
namespace {

template <class Change> model_case made(const char* name, model_reach reaches, Change&& change) {
  model_case c;
  c.name = name;
  c.asks_max = 1;
  c.reaches = reaches;
  std::forward<Change>(change)(c);
  return c;
}

// With two tokens of an answer, the first of which is there, the next one ends the request: nothing is decoded under
// way. With three, one is, and the commit has a tail.
constexpr model_reach still{.stages = 2};
constexpr model_reach decoding{.stages = 2, .tail = true};
constexpr model_reach outgrown{.stages = 2, .extends = true, .tail = true};
constexpr model_reach known{.stages = 2, .extends = true, .tail = true, .fault_extending = true, .known = true};
constexpr model_reach known_decoding{.stages = 2, .tail = true, .known = true};
constexpr model_reach everything{.stages = 3, .extends = true, .tail = true, .fault_extending = true};

/// Each token fills a block: three stages, and a parked request that has outgrown the room of its last one.
void block_by_block(model_case& c) { c.scale = 16, c.prompt = 1, c.tokens = 4; }

template <class Faults> model_case three_stages(const char* what, Faults&& faults) {
  return made((std::string("three stages, ") + what).c_str(), everything, [&](auto& c) {
    block_by_block(c);
    faults(c.faults);
  });
}

} // namespace

std::vector<model_case> everyday_cases() {
  return {
      made("one migration, everything late", decoding,
           [](auto& c) { c.asks_max = 2, c.local_delays = c.stale_timers = true; }),
      made("three and four stages", {.stages = 4, .extends = true, .tail = true},
           [](auto& c) { c.scale = 16, c.prompt = 1, c.tokens = 5, c.stages_max = 4, c.may_finish_early = true; }),
      made("a waiting or half prefilled request", {2, true, true, true},
           [](auto& c) {
             c.starts_waiting = true, c.chunk = 2, c.prompt = 3, c.tokens = 2;
             c.faults.cancels = c.faults.preempts = 1;
           }),
      made("cancelled, stopped, preempted, finished", {2, true, true, true},
           [](auto& c) {
             c.faults.cancels = c.faults.stops = c.faults.preempts = 1;
             c.may_finish_early = true;
           }),
      made("refused, failed, called off", decoding,
           [](auto& c) { c.faults.fabric = c.faults.refusals = c.faults.orders = 1, c.local_delays = false; }),
      made("a destination almost full", outgrown, [](auto& c) { c.pool = 2, c.faults.preempts = 1; }),
      made("its beginning is there", known,
           [](auto& c) { c.known = 1, c.local_delays = true, c.faults.evictions = c.faults.preempts = 1; }),
      made("its beginning is there, coordinators die", known_decoding,
           [](auto& c) { c.known = 1, c.faults.deaths = 2, c.faults.evictions = 1; }),
      made("its beginning is there, block by block", {3, true, true, true, true},
           [](auto& c) { block_by_block(c), c.known = 1, c.faults.losses = c.faults.evictions = 1; }),
      made("its beginning is there, and back", known,
           [](auto& c) { c.known = 1, c.migrations = 2, c.timers = false, c.faults.evictions = 1; }),
      made("coordinators die", decoding, [](auto& c) { c.faults.deaths = 2; }),
      made("lost answers, late and repeated asks", decoding,
           [](auto& c) { c.faults.losses = c.faults.duplicates = 1; }),
      made("a process dies and comes back", outgrown, [](auto& c) { c.faults.crashes = c.faults.restarts = 1; }),
      made("the home dies, and another comes", decoding,
           [](auto& c) {
             c.asks_max = 2, c.may_finish_early = true, c.crashable = 1;
             c.faults.crashes = c.faults.restarts = 1;
           }),
      made("the home dies, another comes, late asks", decoding,
           [](auto& c) {
             c.tokens = 2, c.crashable = 1;
             c.faults.crashes = c.faults.restarts = c.faults.duplicates = 1;
           }),
      made("two processes die", still, [](auto& c) { c.tokens = 2, c.faults.crashes = 2, c.faults.restarts = 1; }),
      made("a link is cut and heals", outgrown, [](auto& c) { c.faults.cuts = c.faults.heals = 1; }),
      made("a process stops and goes on", outgrown, [](auto& c) { c.faults.freezes = c.faults.thaws = 1; }),
      made("a cut and late asks", still, [](auto& c) { c.tokens = 2, c.faults.cuts = c.faults.duplicates = 1; }),
      made("a cut and a death", still,
           [](auto& c) { c.tokens = 2, c.faults.cuts = c.faults.heals = c.faults.crashes = 1; }),
      three_stages("a process dies and comes back", [](auto& f) { f.crashes = f.restarts = 1; }),
      three_stages("a link is cut and heals", [](auto& f) { f.cuts = f.heals = 1; }),
      three_stages("a process stops and goes on", [](auto& f) { f.freezes = f.thaws = 1; }),
      three_stages("coordinators die", [](auto& f) { f.deaths = 2; }),
      three_stages("lost answers, late and repeated asks", [](auto& f) { f.losses = f.duplicates = 1; }),
      three_stages("refused, failed, called off", [](auto& f) { f.refusals = f.fabric = f.orders = 1; }),
      three_stages("cancelled, stopped, preempted", [](auto& f) { f.cancels = f.stops = f.preempts = 1; }),
      made("there and back", still, [](auto& c) { c.tokens = 2, c.migrations = 2; }),
      made("there and back, decoding", outgrown, [](auto& c) { c.migrations = 2, c.timers = false; }),
      made("three instances and a death", still, [](auto& c) { c.tokens = 2, c.instances = 3, c.faults.crashes = 1; }),
      made("chains over three instances", outgrown,
           [](auto& c) { c.instances = 3, c.migrations = 2, c.timers = false; }),
      made("two requests towards each other", still,
           [](auto& c) { c.requests = c.migrations = 2, c.tokens = 2, c.pool = 2, c.timers = false; }),
      made("two requests, one moves", decoding, [](auto& c) { c.requests = 2, c.pool = 3, c.faults.cancels = 1; }),
      made("two requests, one moves in three stages", everything,
           [](auto& c) {
             block_by_block(c);
             c.requests = 2, c.pool = 7, c.timers = false, c.faults.deaths = 1;
           }),
      made("two requests and a death", decoding, [](auto& c) { c.requests = 2, c.pool = 3, c.faults.crashes = 1; }),
      made("two requests, a cut", still, [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.cuts = 1; }),
      made("two requests, a stopped process", still,
           [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.freezes = c.faults.thaws = 1; }),
      made("two requests, lost answers", decoding, [](auto& c) { c.requests = 2, c.pool = 3, c.faults.losses = 1; }),
  };
}

std::vector<model_case> nightly_cases() {
  return {
      made("two requests towards each other, a death", {.stages = 1},
           [](auto& c) {
             c.requests = c.migrations = 2, c.tokens = 2, c.prompt = 1, c.pool = 3, c.stages_max = 2, c.timers = false;
             c.crashable = 3, c.faults.crashes = 1; // the home or A: B is to the one request what A is to the other
           }),
      made("two requests towards each other, with timers", {.stages = 1},
           [](auto& c) { c.requests = c.migrations = 2, c.tokens = 2, c.prompt = 1, c.pool = 2; }),
      made("its beginning is there, a process dies and comes back", known,
           [](auto& c) { c.known = 1, c.faults.crashes = c.faults.restarts = c.faults.evictions = 1; }),
      made("its beginning is there, a link is cut and heals", known,
           [](auto& c) { c.known = 1, c.faults.cuts = c.faults.heals = c.faults.evictions = 1; }),
      made("there and back, a repeated ask", still,
           [](auto& c) { c.migrations = 2, c.tokens = 2, c.faults.duplicates = 1; }),
      made("there and back, decoding, with timers", outgrown, [](auto& c) { c.migrations = 2; }),
      made("the home dies, another comes, repeated questions", decoding,
           [](auto& c) {
             c.asks_max = 2, c.may_finish_early = true, c.crashable = 1;
             c.faults.crashes = c.faults.restarts = c.faults.duplicates = 1;
           }),
      made("chains over three instances, with timers", still,
           [](auto& c) { c.instances = 3, c.migrations = 2, c.tokens = 2; }),
      made("chains over three instances and a death", still,
           [](auto& c) {
             c.tokens = 2, c.instances = 3, c.migrations = 2, c.timers = false;
             c.faults.crashes = 1;
           }),
      made("three instances, two deaths", still,
           [](auto& c) { c.instances = 3, c.tokens = 2, c.faults.crashes = 2, c.faults.restarts = 1; }),
      made("three instances, a cut and a death", still,
           [](auto& c) { c.instances = 3, c.tokens = 2, c.faults.crashes = c.faults.cuts = c.faults.heals = 1; }),
      made("two requests, a cut, decoding", outgrown, [](auto& c) { c.requests = 2, c.pool = 3, c.faults.cuts = 1; }),
      made("one death, everything late", decoding, [](auto& c) { c.local_delays = true, c.faults.crashes = 1; }),
      made("one cut, everything late", outgrown, [](auto& c) { c.local_delays = true, c.faults.cuts = 1; }),
      made("two cuts", still, [](auto& c) { c.tokens = 2, c.faults.cuts = c.faults.heals = 2; }),
  };
}

model_case case_for(mutant bug) {
  model_case c;
  c.name = to_string(bug);
  c.asks_max = 1;
  c.bug = bug;
  switch (bug) {
  case mutant::overlooks_preemption:
  case mutant::never_resumes_after_a_refusal:
    c.faults.preempts = 1;
    break;
  case mutant::has_no_timers:
  case mutant::has_no_lease:
  case mutant::forgets_migrated_requests:
    c.faults.freezes = 1;
    break;
  case mutant::counts_the_last_stage_only: // needs a request that outgrows what was reserved for its last stage
    c.scale = 16, c.prompt = 1, c.tokens = 5;
    break;
  case mutant::ignores_death_of_a_source:
  case mutant::ignores_death_of_a_destination:
  case mutant::frees_under_open_postings:
    c.faults.deaths = 1;
    break;
  case mutant::keeps_no_reference_to_what_it_has:
    c.known = 1;
    break;
  case mutant::claim_waits_for_ever:
  case mutant::reclaim_waits_for_ever:
  case mutant::refuses_a_repeated_claim:
  case mutant::refuses_a_repeated_reclaim:
    c.asks_max = 2;
    c.faults.losses = 1;
    break;
  case mutant::ignores_death_of_the_home:
  case mutant::grants_the_unknown:
    c.crashable = 1;
    c.faults.crashes = c.faults.restarts = 1;
    break;
  case mutant::grants_to_the_dead:
    c.tokens = 2;
    c.faults.crashes = c.faults.duplicates = 1;
    break;
  case mutant::cancels_the_owner_before:
    c.faults.cancels = 1;
    break;
  default:
    break;
  }
  return c;
}

} // namespace godwit::protocols::model
