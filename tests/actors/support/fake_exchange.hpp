#pragma once

#include <godwit/transport/http/exchange.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace godwit::test {

/// An HTTP exchange without a network. Used on one thread.
class fake_exchange final : public transport::http::exchange {
public:
  void respond(transport::http::response answer) override {
    if (gone || complete) return;
    complete = true;
    whole = std::move(answer);
    gone_function = {};
  }
  void begin_stream(int code, transport::http::headers head) override {
    status = code;
    fields = std::move(head);
    streaming = true;
  }
  void write(std::string chunk) override {
    if (gone || complete) return;
    body += chunk;
    if (on_write) on_write();
  }
  void write_in_full(std::string chunk) override {
    in_full += chunk.size();
    write(std::move(chunk));
  }
  void finish() override {
    complete = true;
    gone_function = {};
  }
  void on_close(std::function<void()> f) override {
    if (!complete) gone_function = std::move(f);
  }
  void keep_alive_every(std::chrono::milliseconds interval, std::string bytes) override {
    beats_every = interval;
    beat = std::move(bytes);
  }
  [[nodiscard]] bool closed() const override { return gone; }

  /// The client closes the connection.
  void hang_up() {
    gone = true;
    if (auto f = std::exchange(gone_function, {})) f();
  }

  transport::http::response whole;
  int status = 0;
  transport::http::headers fields;
  std::string body;
  std::chrono::milliseconds beats_every{0};
  std::string beat;
  std::size_t in_full = 0; ///< bytes that were written as such
  bool streaming = false;
  bool complete = false;
  bool gone = false;
  std::function<void()> on_write;

private:
  std::function<void()> gone_function;
};

} // namespace godwit::test
