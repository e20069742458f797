#include "ucx/stream_listener.hpp"

#include <boost/asio/read.hpp>

#include <cstring>
#include <utility>

namespace godwit::transport::ucx {

namespace asio = boost::asio;

namespace {
/// Connections that have not said whose they are.
constexpr std::size_t strangers_max = 64;
/// Until the next try where none can be accepted, for want of descriptors.
constexpr auto pause = std::chrono::milliseconds(100);
} // namespace

stream_listener::stream_listener(asio::io_context& io, const std::string& host, std::uint16_t port,
                                 std::chrono::milliseconds patience, arrival arrived)
    : acceptor_(io, stream_socket::protocol::endpoint(asio::ip::make_address(host), port)), pause_(io),
      patience_(patience), arrived_(std::move(arrived)), port_(acceptor_.local_endpoint().port()) {
  accept();
}

std::uint64_t stream_listener::expect(connection to) {
  std::uint64_t token = 0;
  while (token == 0 || expected_.contains(token)) token = std::uint64_t{random_()} << 32U | random_();
  expected_.emplace(token, to);
  return token;
}

void stream_listener::forget(connection which) {
  std::erase_if(expected_, [which](const auto& entry) { return entry.second == which; });
}

void stream_listener::accept() {
  acceptor_.async_accept([this](boost::system::error_code error, stream_socket::protocol::socket made) {
    if (error == asio::error::operation_aborted) return; // the fabric ends
    if (!error) {
      greet(std::move(made));
      return accept();
    }
    pause_.expires_after(pause);
    pause_.async_wait([this](boost::system::error_code ended) {
      if (!ended) accept();
    });
  });
}

void stream_listener::greet(stream_socket::protocol::socket from) {
  std::erase_if(strangers_, [](const auto& one) { return one.expired(); });
  // The one that has been silent for longest makes room: who is honest says its token within a round trip.
  if (strangers_.size() >= strangers_max) {
    if (const auto oldest = strangers_.front().lock()) {
      boost::system::error_code ignored;
      oldest->socket.close(ignored);
    }
    strangers_.pop_front();
  }
  const auto who = std::make_shared<stranger>(std::move(from));
  strangers_.push_back(who);
  who->patience.expires_after(patience_);
  who->patience.async_wait([weak = std::weak_ptr(who)](boost::system::error_code ended) {
    const auto late = weak.lock();
    boost::system::error_code ignored;
    if (!ended && late) late->socket.close(ignored); // which ends the read
  });
  asio::async_read(who->socket, asio::buffer(who->said), [this, who](boost::system::error_code error, std::size_t) {
    if (!error && who->socket.is_open()) greeted(*who); // it may just have made room
  });
}

void stream_listener::greeted(stranger& who) {
  stream_greeting greeting;
  std::memcpy(&greeting, who.said.data(), sizeof greeting);
  const auto found = expected_.find(greeting.token);
  if (greeting.magic != stream_magic || found == expected_.end()) return;
  const auto owner = found->second;
  expected_.erase(found);
  arrived_(owner, std::move(who.socket));
}

} // namespace godwit::transport::ucx
