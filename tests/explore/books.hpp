#pragma once

#include <godwit/protocols/messages/status.hpp>

#include <string>

namespace godwit::explore {

/// Recounts what each instance reports (the figures that freeness is made of) from its list of requests. One line that
/// says what differs; empty where all agree.
[[nodiscard]] std::string compare_books(const protocols::cluster_status& status);

} // namespace godwit::explore
