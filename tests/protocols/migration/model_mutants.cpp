#include "model_rules.hpp"

#include <algorithm>
#include <array>

namespace godwit::protocols::model {

migration_source::effects rules::step_source(byte m, migration_source::event what) {
  using source = migration_source;
  auto& machine = *w_.moves.at(m).source;
  if (is(mutant::overlooks_preemption)) {
    if (const auto* gone = std::get_if<source::gone>(&what); gone != nullptr && !gone->left) return {};
    if (auto* looked = std::get_if<source::looked>(&what)) looked->now.preemptions = 0;
    if (auto* parked = std::get_if<source::parked>(&what)) parked->now.preemptions = 0;
  }
  auto effects = machine.step(what);
  const auto has = [&]<class T>(T*) {
    return std::ranges::any_of(effects, [](const auto& e) { return std::holds_alternative<T>(e); });
  };
  if (is(mutant::resumes_when_commit_is_unanswered) && std::holds_alternative<source::timed_out>(what) &&
      has(static_cast<source::settle*>(nullptr)))
    return {source::resume{}, source::finish{migration_outcome::aborted, migration_reason::timed_out}};
  if (is(mutant::frees_with_the_commit) && has(static_cast<source::commit*>(nullptr)))
    effects.emplace_back(source::release{});
  if (is(mutant::forgets_the_last_block))
    for (auto& e : effects)
      if (auto* commit = std::get_if<source::commit>(&e)) --commit->blocks;
  if (is(mutant::never_resumes_after_a_refusal) && std::holds_alternative<source::refused>(what))
    std::erase_if(effects, [](const auto& e) { return std::holds_alternative<source::resume>(e); });
  if (is(mutant::never_releases))
    std::erase_if(effects, [](const auto& e) { return std::holds_alternative<source::release>(e); });
  return effects;
}

migration_destination::effects rules::step_destination(byte m, migration_destination::event what) {
  using destination = migration_destination;
  auto& machine = *w_.moves.at(m).destination;
  destination::effects before;
  const auto* committed = std::get_if<destination::committed>(&what);
  if (committed != nullptr && machine.where() == destination::phase::receiving) {
    const auto stages = machine.stages();
    const auto pretend = is(mutant::adopts_before_all_landed)     ? stages
                         : is(mutant::counts_the_last_stage_only) ? stages - std::min(stages, 1U)
                                                                  : 0U;
    for (std::uint32_t s = 0; s < pretend; ++s) before = machine.step(destination::landed{s, blocks_max});
  }
  if (is(mutant::frees_what_it_adopted) && machine.where() == destination::phase::adopting &&
      std::holds_alternative<destination::abort_ordered>(what))
    return {destination::free_blocks{}};
  auto effects = machine.step(what);
  if (is(mutant::leaks_what_it_received))
    std::erase_if(effects, [](const auto& e) { return std::holds_alternative<destination::free_blocks>(e); });
  if (is(mutant::frees_before_it_closes)) {
    const bool aborting = machine.where() == destination::phase::aborting;
    for (std::size_t i = 0; i < effects.size(); ++i)
      if (aborting && std::holds_alternative<destination::close>(effects[i])) {
        effects.insert(effects.begin() + static_cast<std::ptrdiff_t>(i), destination::free_blocks{});
        break;
      }
  }
  return effects;
}

namespace {

struct planted {
  std::string_view name;
  std::string_view breaks;
};

planted about(mutant bug) {
  constexpr auto stranger = "an instance decodes a request that is not its own, and nobody will tell it";
  constexpr auto no_end = "a request never ends";
  constexpr auto no_blocks = "a request decodes without the blocks of its KV";
  constexpr auto wrong_kv = "a request decodes on KV that is not its own, or not complete";
  constexpr auto parked = "a request stays parked for ever";
  constexpr auto source_waits = "a source coordinator waits for ever";
  constexpr auto destination_waits = "a destination coordinator waits for ever";
  constexpr auto reservation = "a reservation outlives its migration";
  constexpr auto open_landing = "a landing place is open over blocks that were given back or handed over";
  constexpr auto twice = "a block is used by two";
  constexpr auto gap = "tokens are missing although no link was cut";
  constexpr auto two_owners = "a request has two owners whose tokens the home accepts";
  constexpr std::array<planted, static_cast<std::size_t>(mutant::count)> all{
      {{"none", ""},
       {"the source resumes by itself when its commit is unanswered", stranger},
       {"the source frees the request together with the commit", no_end},
       {"the commit leaves out the block that is being written", no_blocks},
       {"the source overlooks a preemption", wrong_kv},
       {"the source does not resume after a refusal", parked},
       {"the source does not release what has moved", parked},
       {"the source has no timers", source_waits},
       {"the destination leaks the blocks of a failed receive", reservation},
       {"the destination receives without a lease", destination_waits},
       {"the destination adopts before all blocks have landed", wrong_kv},
       {"the destination counts what landed in the last stage only", wrong_kv},
       {"the destination frees blocks before their landing places are closed", open_landing},
       {"the fabric says closed while writes can still land", open_landing},
       {"the destination frees what its llumlet has adopted", no_blocks},
       {"the destination keeps no reference to the blocks that it has already", twice},
       {"the destination says that it has blocks which it has not", open_landing},
       {"a parked request decodes on", gap},
       {"a llumlet frees a parked request while the last copy still reads it", wrong_kv},
       {"a llumlet ignores the death of a coordinator that had its request parked", parked},
       {"a llumlet ignores the death of a coordinator that had blocks reserved", reservation},
       {"a llumlet frees the blocks of a dead coordinator under open landing places", open_landing},
       {"the destination decodes under the old epoch", stranger},
       {"the source goes on under the old epoch", stranger},
       {"the destination takes the request without asking the home", stranger},
       {"a claim without an answer waits for ever", destination_waits},
       {"a reclaim without an answer waits for ever", source_waits},
       {"a llumlet gives up a request without telling the home", no_end},
       {"a llumlet ignores the death of the home", stranger},
       {"the home grants both claim and reclaim", two_owners},
       {"the home does not raise the epoch for a claim", stranger},
       {"the home drops the tail that comes with a claim", gap},
       {"the home ignores that a request is disowned", no_end},
       {"the home refuses a claim that it granted before", no_end},
       {"the home refuses a reclaim that it granted before", no_end},
       {"the home grants a claim of an instance that is gone", no_end},
       {"the home grants a claim of a request that has ended", wrong_kv},
       {"the home cancels at the owner before", stranger},
       {"the home forgets requests that had moved when their instance is lost", no_end},
       {"a new home grants a claim of a request that it does not know", stranger}}};
  return all.at(static_cast<std::size_t>(bug));
}

} // namespace

std::string_view to_string(mutant bug) { return about(bug).name; }

std::string_view promise_broken_by(mutant bug) { return about(bug).breaks; }

} // namespace godwit::protocols::model
