#pragma once

#include <godwit/protocols/batching/settings.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <string>
#include <vector>

namespace godwit::explore {

/// Recounts what each instance reports, the figures that its freeness is made of, from its list of requests: who runs,
/// waits and is parked, what the running ones and the head of line still want, the headroom of their levels, tokens to
/// be prefilled. Blocks that are used are recounted by the instance itself, reference by reference
/// (llumlet_options::recount), since requests share them. `planner`: as the instances have it. One line that says what
/// differs; empty where all agree.
[[nodiscard]] std::string compare_books(const protocols::cluster_status& status,
                                        const protocols::planner_settings& planner);

/// The freeness that autoscaling should go by, worked out from reports of the instances themselves.
[[nodiscard]] double recounted_mean(std::vector<protocols::load_report> loads,
                                    const protocols::scaling_settings& settings);

} // namespace godwit::explore
