#pragma once

#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/log/line_budget.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/transport/http/exchange.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace godwit::actors {

/// A line of the log for each HTTP request, when its answer is complete or its client has gone: at debug. A request
/// that is refused (with a status from 400 on) has its line at info, with what the client was told, so that an operator
/// sees what clients do wrong; of these ten a second are written, of those that are this side's fault (from 500 on) ten
/// more, and how many were left out, at the end at the latest. So is a stream that ends with an error. Refusals of
/// /health and /ping, which come for as long as nothing is ready, stay at debug, where all lines are written.
///
/// Lines name the client's address, method, path, status and, where the answer has one, `X-Request-Id`. Thread-safe.
class access_log : public std::enable_shared_from_this<access_log> {
public:
  access_log(runtime::log::logger log, std::shared_ptr<const runtime::clock> clock);
  ~access_log();

  /// The exchange to answer, whose end is logged; `exchange` itself where nothing would be.
  [[nodiscard]] std::shared_ptr<transport::http::exchange> watch(const transport::http::request& request,
                                                                 std::shared_ptr<transport::http::exchange> exchange);
  /// Answered without an exchange. `head`: null where it could not be read.
  void refused(const std::string& peer, const transport::http::request* head, const transport::http::response& answer);

private:
  struct entry;
  class watched;
  void write(const entry& what);
  void tell_left_out(std::uint64_t count) const;

  const runtime::log::logger log_;
  const std::shared_ptr<const runtime::clock> clock_;
  runtime::log::line_budget refusals_{10};
  runtime::log::line_budget failures_{10};
};

} // namespace godwit::actors
