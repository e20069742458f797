#include "ucx/stream_socket.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace godwit::transport::ucx {

stream_socket::stream_socket(protocol::socket connected, std::function<void()> wake)
    : socket_(std::move(connected)), wake_(std::move(wake)) {
  boost::system::error_code ignored; // a broken socket says so when it is used
  socket_.non_blocking(true, ignored);
  socket_.set_option(protocol::no_delay(true), ignored);
}

std::size_t stream_socket::read(std::span<iovec> into) {
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = into.size();
  const auto got = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  if (got == 0) close_told();
  return moved(got, protocol::socket::wait_read, readable_);
}

std::size_t stream_socket::write(std::span<iovec> from, bool more) {
  msghdr message{};
  message.msg_iov = from.data();
  message.msg_iovlen = from.size();
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  return moved(::sendmsg(socket_.native_handle(), &message, flags), protocol::socket::wait_write, writable_);
}

std::size_t stream_socket::moved(ssize_t result, protocol::socket::wait_type direction, bool& possible) {
  if (result >= 0) return static_cast<std::size_t>(result);
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    watch(direction, possible);
  else if (errno == ECONNRESET || errno == EPIPE)
    close_told();
  else if (errno != EINTR)
    error_ = std::strerror(errno);
  return 0;
}

void stream_socket::close_told() {
  gone_ = true;
  error_ = "the peer has closed the connection";
}

void stream_socket::watch(protocol::socket::wait_type direction, bool& possible) {
  if (!possible) return;
  possible = false;
  // `possible` is a member, which the lock keeps alive.
  socket_.async_wait(direction, [weak = weak_from_this(), &possible](boost::system::error_code) {
    const auto self = weak.lock();
    if (!self) return;
    possible = true;
    self->wake_();
  });
}

} // namespace godwit::transport::ucx
