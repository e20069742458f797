#pragma once

#include "explore/run.hpp"
#include "explore/scenario.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::explore {

/// The promise that a run breaks which has no end.
inline constexpr std::string_view ends_promise = "a run ends";
/// The one that two runs show together.
inline constexpr std::string_view same_promise = "the same scenario does the same";

struct fleet_options {
  unsigned processes = 1;
  std::chrono::seconds wall_limit{60}; ///< of one run; a longer one hangs
  std::uint32_t twice_every = 17;      ///< every so many-th scenario runs twice and must do the same; 0: none
  std::function<bool()> stop;          ///< asked twice a second; true ends all runs where they are
};

/// Runs scenarios in processes of their own, so that a crash or a hang of one is an outcome like any other.
///
/// `next` gives the scenarios, until there are no more; `done` takes each outcome, in no order, and says whether to go
/// on.
void run_fleet(const fleet_options& options, const std::function<std::optional<scenario>()>& next,
               const std::function<bool(const scenario&, const outcome&)>& done);

/// One of them; `twice`: two times, which must do the same.
[[nodiscard]] outcome run_apart(const scenario& s, std::chrono::seconds wall_limit, bool twice = false);

/// In this process. What somebody looks on at is the first of two.
[[nodiscard]] outcome run_here(const scenario& s, bool twice, const run_options& options = {});

} // namespace godwit::explore
