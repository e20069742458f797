#pragma once

#include "protocols/batching/planner_support.hpp"

#include <cstdint>

namespace godwit::protocols::testing_support {

/// A short prompt like no other's, that came in the order of the numbers and gets two tokens, whatever is expected.
inline generate_request waiting_request(std::uint64_t number, std::uint32_t expected_tokens, std::int64_t ttft_ns) {
  auto request = asks_for(number, 8, 2, 0, static_cast<std::int64_t>(number));
  request.prompt = counting_from(static_cast<token_id>(number * 100), 8);
  request.expected_tokens = expected_tokens;
  request.ttft_ns = ttft_ns;
  return request;
}

} // namespace godwit::protocols::testing_support
