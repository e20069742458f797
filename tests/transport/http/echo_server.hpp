#pragma once

#include "transport/http/raw_socket.hpp"

#include <godwit/transport/http/server.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::transport::http::test {

/// A server for tests: /echo answers at once, /hold keeps the exchange for the test, /drop drops it, /throw throws.
class echo_server {
public:
  explicit echo_server(server_settings settings = {})
      : server_(std::move(settings), [this](request r, auto e) { take(std::move(r), e); }) {
    const auto failed = server_.listen("127.0.0.1", 0);
    EXPECT_FALSE(failed.has_value()) << failed->message;
  }

  [[nodiscard]] std::uint16_t port() const { return server_.local_port(); }
  [[nodiscard]] std::string url(const std::string& target) const {
    return "http://127.0.0.1:" + std::to_string(port()) + target;
  }
  [[nodiscard]] server& get_server() { return server_; }

  /// The next exchange of /hold, in the order of arrival.
  std::shared_ptr<exchange> held() {
    auto out = std::shared_ptr<exchange>();
    eventually([&] {
      const auto lock = std::lock_guard(mutex_);
      if (held_.empty()) return false;
      out = std::move(held_.front());
      held_.erase(held_.begin());
      return true;
    });
    EXPECT_TRUE(out);
    return out;
  }
  [[nodiscard]] std::size_t waiting() {
    const auto lock = std::lock_guard(mutex_);
    return held_.size();
  }
  [[nodiscard]] std::optional<request> last() {
    const auto lock = std::lock_guard(mutex_);
    return last_;
  }

private:
  void take(request r, const std::shared_ptr<exchange>& e) {
    {
      const auto lock = std::lock_guard(mutex_);
      last_ = r;
      if (r.target == "/hold") held_.push_back(e);
    }
    if (r.target == "/throw") throw std::runtime_error("as asked");
    if (r.target != "/echo") return;
    auto answer = response();
    answer.content_type = "text/plain";
    answer.body = r.method + " " + r.query + " " + r.body;
    e->respond(std::move(answer));
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<exchange>> held_;
  std::optional<request> last_;
  server server_; // last: its threads use the rest
};

} // namespace godwit::transport::http::test
