#include <godwit/actors/openai_edge.hpp>

#include <godwit/protocols/openai/error.hpp>
#include <godwit/runtime/trace/page_json.hpp>

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

// /debug/: the page of recordings, and what it shows of a process that runs.

namespace godwit::actors {

namespace http = transport::http;

namespace {

constexpr std::uint64_t last_ms_default = 10'000;
constexpr std::uint64_t last_ms_max = 600'000;
/// Writing so many takes about 50 ms.
constexpr std::uint64_t events_max = 20'000;

/// The number that `name` has in "a=1&b=2", 1 to `most`; the nearest of these where it is another one. None: it has
/// something else.
std::optional<std::uint64_t> number_in(std::string_view query, std::string_view name, std::uint64_t otherwise,
                                       std::uint64_t most) {
  while (!query.empty()) {
    const auto field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    if (!field.starts_with(name) || field.substr(name.size(), 1) != "=") continue;
    const auto digits = field.substr(name.size() + 1);
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (failure == std::errc::invalid_argument || end != digits.data() + digits.size()) return std::nullopt;
    return failure == std::errc::result_out_of_range ? most : std::clamp<std::uint64_t>(value, 1, most);
  }
  return otherwise;
}

http::response fresh(std::string type, std::string body) {
  http::response out;
  out.content_type = std::move(type);
  out.fields = {{"Cache-Control", "no-store"},
                {"X-Content-Type-Options", "nosniff"},
                {"Content-Security-Policy", "frame-ancestors 'none'"}};
  out.body = std::move(body);
  return out;
}

} // namespace

void openai_edge::debug_home(const http::request&, const exchange_ptr& exchange) {
  http::response out;
  out.status = 308;
  out.content_type = {};
  out.fields.add("Location", "/debug/");
  exchange->respond(std::move(out));
}

void openai_edge::debug_page(const http::request&, const exchange_ptr& exchange) {
  exchange->respond(fresh("text/html; charset=utf-8", std::string(options_.debug_page)));
}

// Long work, on a thread of its own: an I/O thread would serve nobody else meanwhile. One at a time, for all pages.
void openai_edge::debug_recording(const http::request& request, const exchange_ptr& exchange) {
  const auto last_ms = number_in(request.query, "last_ms", last_ms_default, last_ms_max);
  const auto events = number_in(request.query, "events", events_max, events_max);
  if (!last_ms || !events)
    return exchange->respond(
        openai_error_response(400, std::string(last_ms ? "events" : "last_ms") + " is to be a whole number"));
  if (debug_busy_.exchange(true)) {
    auto busy = fresh("application/json", R"({"error":"another page is being served"})");
    busy.status = 503;
    busy.fields.add("Retry-After", "1");
    return exchange->respond(std::move(busy));
  }
  const auto write = [this, last = std::chrono::milliseconds(*last_ms), events = *events, exchange] {
    http::response answer;
    try {
      runtime::trace::page_json_options page;
      page.live = true;
      page.title = options_.model.name;
      page.events_max = events;
      answer = fresh("application/json", runtime::trace::page_json(options_.debug_recording(last), page));
    } catch (const std::exception& failure) { // no memory for it
      answer = openai_error_response(500, failure.what());
    }
    debug_busy_ = false; // whoever has the answer may ask again
    exchange->respond(std::move(answer));
  };
  // The thread before, which has only its answer to give, may be done before it stands in debug_thread_.
  const std::lock_guard lock(debug_mutex_);
  if (debug_thread_.joinable()) debug_thread_.join();
  try {
    debug_thread_ = std::thread(write);
  } catch (const std::system_error& failure) { // no more threads for this process
    debug_busy_ = false;
    exchange->respond(openai_error_response(503, failure.what()));
  }
}

openai_edge::~openai_edge() {
  if (worker_) worker_->end(); // its jobs use the rest
  if (debug_thread_.joinable()) debug_thread_.join();
}

} // namespace godwit::actors
