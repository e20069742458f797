#pragma once

#include <godwit/transport/http/exchange.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::actors {

/// Hands everything to another exchange. Who watches or changes answers derives from it and overrides what it looks at.
class passing_exchange : public transport::http::exchange {
public:
  explicit passing_exchange(std::shared_ptr<transport::http::exchange> inner) : inner_(std::move(inner)) {}
  void respond(transport::http::response answer) override { inner_->respond(std::move(answer)); }
  void begin_stream(int status, transport::http::headers fields) override {
    inner_->begin_stream(status, std::move(fields));
  }
  void write(std::string chunk) override { inner_->write(std::move(chunk)); }
  void write_in_full(std::string chunk) override { inner_->write_in_full(std::move(chunk)); }
  void stream_failed(std::string_view error) override { inner_->stream_failed(error); }
  void finish() override { inner_->finish(); }
  void keep_alive_every(std::chrono::milliseconds interval, std::string bytes) override {
    inner_->keep_alive_every(interval, std::move(bytes));
  }
  void on_close(std::function<void()> gone) override { inner_->on_close(std::move(gone)); }
  [[nodiscard]] bool closed() const override { return inner_->closed(); }

protected:
  [[nodiscard]] transport::http::exchange& inner() const noexcept { return *inner_; }

private:
  std::shared_ptr<transport::http::exchange> inner_;
};

} // namespace godwit::actors
