#pragma once

#include <cstdint>
#include <string_view>

namespace godwit::protocols::model {

/// Bugs that the checker must find. They are planted around the production machines (events and effects are changed on
/// the way in and out), or in the procedures of llumlet, home and fabric that the model acts out.
enum class mutant : std::uint8_t {
  none,
  // the source
  resumes_when_commit_is_unanswered,
  frees_with_the_commit,
  forgets_the_last_block,
  overlooks_preemption,
  never_resumes_after_a_refusal,
  never_releases,
  has_no_timers,
  // the destination
  leaks_what_it_received,
  has_no_lease,
  adopts_before_all_landed,
  counts_the_last_stage_only,
  frees_before_it_closes,
  closes_without_waiting,
  frees_what_it_adopted,
  keeps_no_reference_to_what_it_has,
  says_that_it_has_more,
  // the llumlets
  parked_requests_decode_on,
  frees_under_the_last_copy,
  ignores_death_of_a_source,
  ignores_death_of_a_destination,
  frees_under_open_postings,
  adopts_under_the_old_epoch,
  resumes_under_the_old_epoch,
  claims_without_asking,
  claim_waits_for_ever,
  reclaim_waits_for_ever,
  gives_up_in_silence,
  ignores_death_of_the_home,
  // the home
  grants_claim_and_reclaim,
  does_not_raise_the_epoch,
  drops_the_tail,
  ignores_disown,
  refuses_a_repeated_claim,
  refuses_a_repeated_reclaim,
  grants_to_the_dead,
  revives_the_finished,
  cancels_the_owner_before,
  forgets_migrated_requests,
  // the home that comes after a dead one
  grants_the_unknown,
  count
};

[[nodiscard]] std::string_view to_string(mutant bug);
/// What its shortest counterexample ends in.
[[nodiscard]] std::string_view promise_broken_by(mutant bug);

} // namespace godwit::protocols::model
