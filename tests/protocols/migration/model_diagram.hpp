#pragma once

#include "model_rules.hpp"

#include <string>
#include <vector>

namespace godwit::protocols::model {

/// The path as a sequence diagram in text. An arrow is a message at the moment of its arrival, `~` a block, `*`
/// something that a participant does, `x` a message that is lost.
[[nodiscard]] std::string diagram(const model_case& bounds, const std::vector<action>& path);

} // namespace godwit::protocols::model
