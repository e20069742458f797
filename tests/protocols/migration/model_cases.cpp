#include "model_cases.hpp"

#include <utility>

namespace godwit::protocols::model {
namespace {

template <class Change> model_case made(const char* name, Change&& change) {
  model_case c;
  c.name = name;
  c.asks_max = 1;
  std::forward<Change>(change)(c);
  return c;
}

} // namespace

std::vector<model_case> everyday_cases() {
  return {
      made("one migration, everything late", [](auto& c) { c.asks_max = 2, c.local_delays = c.stale_timers = true; }),
      made("three and four stages",
           [](auto& c) { c.scale = 16, c.prompt = 1, c.tokens = 5, c.stages_max = 4, c.may_finish_early = true; }),
      made("a waiting or half prefilled request",
           [](auto& c) {
             c.starts_waiting = true, c.chunk = 2, c.prompt = 3, c.tokens = 2;
             c.faults.cancels = c.faults.preempts = 1;
           }),
      made("cancelled, stopped, preempted, finished",
           [](auto& c) {
             c.faults.cancels = c.faults.stops = c.faults.preempts = 1;
             c.may_finish_early = true;
           }),
      made("refused, failed, called off",
           [](auto& c) { c.faults.fabric = c.faults.refusals = c.faults.orders = 1, c.local_delays = false; }),
      made("a destination almost full", [](auto& c) { c.pool = 2, c.faults.preempts = 1; }),
      made("coordinators die", [](auto& c) { c.faults.deaths = 2; }),
      made("lost answers, late and repeated asks", [](auto& c) { c.faults.losses = c.faults.duplicates = 1; }),
      made("a process dies and comes back", [](auto& c) { c.faults.crashes = c.faults.restarts = 1; }),
      made("the home dies, and another comes",
           [](auto& c) {
             c.asks_max = 2, c.may_finish_early = true, c.crashable = 1;
             c.faults.crashes = c.faults.restarts = 1;
           }),
      made("the home dies, another comes, late asks",
           [](auto& c) {
             c.tokens = 2, c.crashable = 1;
             c.faults.crashes = c.faults.restarts = c.faults.duplicates = 1;
           }),
      made("two processes die", [](auto& c) { c.tokens = 2, c.faults.crashes = 2, c.faults.restarts = 1; }),
      made("a link is cut and heals", [](auto& c) { c.faults.cuts = c.faults.heals = 1; }),
      made("a process stops and goes on", [](auto& c) { c.faults.freezes = c.faults.thaws = 1; }),
      made("a cut and late asks", [](auto& c) { c.tokens = 2, c.faults.cuts = c.faults.duplicates = 1; }),
      made("a cut and a death", [](auto& c) { c.tokens = 2, c.faults.cuts = c.faults.heals = c.faults.crashes = 1; }),
      made("there and back", [](auto& c) { c.tokens = 2, c.migrations = 2; }),
      made("three instances and a death", [](auto& c) { c.tokens = 2, c.instances = 3, c.faults.crashes = 1; }),
      made("chains over three instances",
           [](auto& c) { c.tokens = 2, c.instances = 3, c.migrations = 2, c.timers = false; }),
      made("two requests towards each other",
           [](auto& c) { c.requests = c.migrations = 2, c.tokens = 2, c.pool = 2, c.timers = false; }),
      made("two requests, one moves", [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.cancels = 1; }),
      made("two requests and a death", [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.crashes = 1; }),
      made("two requests towards each other, a death",
           [](auto& c) {
             c.requests = c.migrations = 2, c.tokens = 2, c.prompt = 1, c.pool = 3, c.stages_max = 2, c.timers = false;
             c.crashable = 3, c.faults.crashes = 1; // the home or A: B is to the one request what A is to the other
           }),
      made("two requests, a cut", [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.cuts = 1; }),
      made("two requests towards each other, with timers",
           [](auto& c) { c.requests = c.migrations = 2, c.tokens = 2, c.prompt = 1, c.pool = 2; }),
      made("two requests, a stopped process",
           [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.freezes = c.faults.thaws = 1; }),
      made("two requests, lost answers",
           [](auto& c) { c.requests = 2, c.tokens = 2, c.pool = 3, c.faults.losses = 1; }),
  };
}

std::vector<model_case> nightly_cases() {
  return {
      made("there and back, a repeated ask", [](auto& c) { c.migrations = 2, c.tokens = 2, c.faults.duplicates = 1; }),
      made("the home dies, another comes, repeated questions",
           [](auto& c) {
             c.asks_max = 2, c.may_finish_early = true, c.crashable = 1;
             c.faults.crashes = c.faults.restarts = c.faults.duplicates = 1;
           }),
      made("chains over three instances, with timers",
           [](auto& c) { c.instances = 3, c.migrations = 2, c.tokens = 2; }),
      made("chains over three instances and a death",
           [](auto& c) {
             c.tokens = 2, c.instances = 3, c.migrations = 2, c.timers = false;
             c.faults.crashes = 1;
           }),
      made("three instances, two deaths",
           [](auto& c) { c.instances = 3, c.tokens = 2, c.faults.crashes = 2, c.faults.restarts = 1; }),
      made("three instances, a cut and a death",
           [](auto& c) { c.instances = 3, c.tokens = 2, c.faults.crashes = c.faults.cuts = c.faults.heals = 1; }),
      made("one death, everything late", [](auto& c) { c.local_delays = true, c.faults.crashes = 1; }),
      made("one cut, everything late", [](auto& c) { c.local_delays = true, c.faults.cuts = 1; }),
      made("two cuts", [](auto& c) { c.tokens = 2, c.faults.cuts = c.faults.heals = 2; }),
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
