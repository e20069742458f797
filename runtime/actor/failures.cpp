#include "actor/failures.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include <exception>

namespace godwit::runtime {

std::string_view to_string(stop_reason reason) noexcept {
  switch (reason) {
  case stop_reason::normal:
    return "normal";
  case stop_reason::shutdown:
    return "shutdown";
  case stop_reason::killed:
    return "killed";
  case stop_reason::failed:
    return "failed";
  case stop_reason::unreachable:
    return "unreachable";
  }
  return "unknown";
}

namespace detail {

async::error to_error(const caf::error& e) {
  using async::error_code;
  if (e == caf::sec::request_receiver_down) return async::error{error_code::down, "the actor is gone"};
  if (e == caf::sec::request_timeout) return async::error{error_code::timeout, "no answer in time"};
  if (e.category() == caf::atom("exit")) return async::error{error_code::down, std::string(to_string(to_reason(e)))};
  return async::error{error_code::failed, caf::actor_system_config::render(e)};
}

stop_reason to_reason(const caf::error& e) noexcept {
  if (!e) return stop_reason::normal;
  if (e == caf::exit_reason::user_shutdown) return stop_reason::shutdown;
  if (e == caf::exit_reason::kill) return stop_reason::killed;
  if (e == caf::exit_reason::remote_link_unreachable || e == caf::exit_reason::unreachable ||
      e == caf::exit_reason::unknown)
    return stop_reason::unreachable;
  return stop_reason::failed;
}

caf::error to_caf(stop_reason reason) {
  switch (reason) {
  case stop_reason::normal:
    return {};
  case stop_reason::shutdown:
    return caf::exit_reason::user_shutdown;
  case stop_reason::killed:
    return caf::exit_reason::kill;
  case stop_reason::failed:
    return caf::exit_reason::unhandled_exception;
  case stop_reason::unreachable:
    return caf::exit_reason::unreachable;
  }
  return {};
}

async::error describe(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return async::error{async::error_code::failed, e.what()};
  } catch (...) {
    return async::error{async::error_code::failed, "an exception of unknown type"};
  }
}

} // namespace detail
} // namespace godwit::runtime
