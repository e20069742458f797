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

std::string_view to_string(mutant bug) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(mutant::count)> names{
      "none",
      "the source resumes by itself when its commit is unanswered",
      "the source frees the request together with the commit",
      "the commit leaves out the block that is being written",
      "the source overlooks a preemption",
      "the source does not resume after a refusal",
      "the source does not release what has moved",
      "the source has no timers",
      "the destination leaks the blocks of a failed receive",
      "the destination receives without a lease",
      "the destination adopts before all blocks have landed",
      "the destination counts what landed in the last stage only",
      "the destination frees blocks before their landing places are closed",
      "the fabric says closed while writes can still land",
      "the destination frees what its llumlet has adopted",
      "a parked request decodes on",
      "a llumlet frees a parked request while the last copy still reads it",
      "a llumlet ignores the death of a coordinator that had its request parked",
      "a llumlet ignores the death of a coordinator that had blocks reserved",
      "a llumlet frees the blocks of a dead coordinator under open landing places",
      "the destination decodes under the old epoch",
      "the source goes on under the old epoch",
      "the destination takes the request without asking the home",
      "a claim without an answer waits for ever",
      "a reclaim without an answer waits for ever",
      "a llumlet gives up a request without telling the home",
      "a llumlet ignores the death of the home",
      "the home grants both claim and reclaim",
      "the home does not raise the epoch for a claim",
      "the home drops the tail that comes with a claim",
      "the home ignores that a request is disowned",
      "the home refuses a claim that it granted before",
      "the home refuses a reclaim that it granted before",
      "the home grants a claim of an instance that is gone",
      "the home grants a claim of a request that has ended",
      "the home cancels at the owner before",
      "the home forgets requests that had moved when their instance is lost",
      "a new home grants a claim of a request that it does not know"};
  return names.at(static_cast<std::size_t>(bug));
}

} // namespace godwit::protocols::model
