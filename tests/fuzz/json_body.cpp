// Bodies of requests: any bytes become a request within its bounds, or an error that a client can read.
#include <godwit/protocols/anthropic/error.hpp>
#include <godwit/protocols/anthropic/messages_request.hpp>
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/request.hpp>
#include <godwit/protocols/openai/tokenize.hpp>

#include <boost/json/parse.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

namespace anthropic = godwit::protocols::anthropic;
namespace openai = godwit::protocols::openai;

void check(bool good) {
  if (!good) std::abort();
}

openai::request_limits limits() {
  openai::request_limits out;
  out.vocabulary = 1000;
  out.context_length = 100;
  return out;
}

void check_error(const openai::api_error& error) {
  check(error.status >= 400 && error.status < 500 && !error.message.empty());
  boost::system::error_code failed;
  const auto body = boost::json::parse(to_json(error), failed); // also for what is not UTF-8
  check(!failed && body.as_object().contains("error"));
  const auto other = boost::json::parse(anthropic::error_object(error), failed);
  check(!failed && other.as_object().contains("error"));
}

void check_request(const openai::common_request& request) {
  check(request.stop_strings.size() <= limits().stops_max && request.sampling.temperature >= 0);
}

void check_request(const openai::responses_request& request) {
  check_request(static_cast<const openai::common_request&>(request));
  check(!request.messages.empty());
  boost::system::error_code failed; // what an answer repeats
  const auto echoed = boost::json::parse("{" + request.parameters + "}", failed);
  check(!failed && echoed.is_object());
}

void check_request(const anthropic::messages_request& request) {
  check_request(static_cast<const openai::common_request&>(request));
  check(!request.messages.empty() && request.continue_final_message != request.add_generation_prompt);
}

void check_request(const openai::tokenize_request& request) {
  if (request.chat) check_request(*request.chat);
}

void check_request(const openai::detokenize_request& request) {
  check(request.tokens.size() <= limits().context_length);
  for (const auto token : request.tokens) check(token >= 0 && static_cast<std::uint32_t>(token) < limits().vocabulary);
}

template <class Parsed> void check_result(const Parsed& parsed) {
  if (parsed)
    check_request(*parsed);
  else
    check_error(parsed.error());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const openai::request_defaults defaults;
  switch (data[0] % 8) {
  case 0:
    check_result(openai::parse_completion(body, defaults, limits()));
    break;
  case 1:
    check_result(openai::parse_chat(body, defaults, limits()));
    break;
  case 2:
    check_result(openai::parse_tokenize(body, defaults, limits()));
    break;
  case 4:
    check_result(openai::parse_responses(body, defaults, limits()));
    break;
  case 5:
    check_result(anthropic::parse_messages(body, defaults, limits()));
    check_result(anthropic::parse_count_tokens(body, defaults, limits()));
    break;
  default:
    check_result(openai::parse_detokenize(body, limits()));
  }
  return 0;
}
