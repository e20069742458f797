// Bodies of requests: any bytes become a request within its bounds, or an error that a client can read.
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/request.hpp>

#include <boost/json/parse.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

namespace openai = godwit::protocols::openai;

void check(bool good) {
  if (!good) std::abort();
}

template <class Parsed> void check_result(const Parsed& parsed) {
  if (!parsed) {
    const auto& error = parsed.error();
    check(error.status >= 400 && error.status < 500 && !error.message.empty());
    boost::system::error_code failed;
    const auto body = boost::json::parse(to_json(error), failed); // also for what is not UTF-8
    check(!failed && body.as_object().contains("error"));
    return;
  }
  check(parsed->stop_strings.size() <= 4 && parsed->sampling.temperature >= 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const openai::request_defaults defaults;
  openai::request_limits limits;
  limits.vocabulary = 1000;
  if (data[0] % 2 == 0)
    check_result(openai::parse_completion(body, defaults, limits));
  else
    check_result(openai::parse_chat(body, defaults, limits));
  return 0;
}
