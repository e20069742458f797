#pragma once

#include <godwit/protocols/messages/request.hpp>

#include <cstdint>
#include <numeric>

namespace godwit::testing_support {

/// A short prompt like no other's, that came in the order of the numbers and gets two tokens, whatever is expected.
inline protocols::generate_request waiting_request(std::uint64_t number, std::uint32_t expected_tokens,
                                                   std::int64_t ttft_ns) {
  protocols::generate_request request;
  request.request = protocols::request_id{number};
  request.epoch = protocols::epoch{1};
  request.prompt.resize(8);
  std::iota(request.prompt.begin(), request.prompt.end(), static_cast<protocols::token_id>(number * 100));
  request.arrival_ns = static_cast<std::int64_t>(number);
  request.stop.max_tokens = 2;
  request.expected_tokens = expected_tokens;
  request.ttft_ns = ttft_ns;
  return request;
}

} // namespace godwit::testing_support
