#pragma once

// g++ 12 takes the allocation of Asio's coroutine frames, once inlined, for one that does not match their deallocation.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

// The one place that names Asio's headers and the way in which its operations are awaited here: errors as values.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <string>

namespace godwit::transport::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using error_code = boost::system::error_code;
using executor = asio::io_context::executor_type;
using socket = asio::basic_stream_socket<tcp, executor>;
using timer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, executor>;
template <class T = void> using awaitable = asio::awaitable<T, executor>;
inline constexpr auto as_value = asio::as_tuple(asio::use_awaitable_t<executor>{});

[[nodiscard]] inline std::string to_string(const tcp::endpoint& e) {
  const auto address = e.address().to_string();
  return (e.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(e.port());
}

} // namespace godwit::transport::http
