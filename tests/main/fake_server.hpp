#pragma once

#include <godwit/transport/http/server.hpp>

#include <boost/json.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace godwit::main::test {

/// What the fake server does with one request.
struct script {
  enum class ending { done, without_done, broken, error_event, silence };
  std::chrono::milliseconds first_delay{0};
  std::chrono::milliseconds gap{0};
  std::optional<std::uint32_t> tokens; ///< events with text; default: max_tokens
  int status = 200;
  std::string message; ///< of an error
  bool usage = true;
  std::int64_t usage_offset = 0; ///< added to the true count
  ending end = ending::done;
};

/// An OpenAI-style server in this process that behaves as told, request by request.
class fake_server {
public:
  using choose = std::function<script(const boost::json::object& body, std::size_t number)>;

  /// With a `key`, it refuses whoever does not send that.
  explicit fake_server(choose chooser, std::string models = R"({"data":[{"id":"fake","max_model_len":4096}]})",
                       std::string key = {});
  fake_server(const fake_server&) = delete;
  fake_server& operator=(const fake_server&) = delete;
  ~fake_server();

  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::size_t running_max() const { return running_max_; }
  [[nodiscard]] std::vector<boost::json::object> bodies() const;
  /// The field Authorization of all requests, the one for the models first; empty: one had none.
  [[nodiscard]] std::vector<std::string> authorizations() const;

private:
  void handle(transport::http::request request, const std::shared_ptr<transport::http::exchange>& exchange);
  void play(const script& how, const boost::json::object& body, bool chat, transport::http::exchange& exchange);

  choose chooser_;
  std::string models_;
  std::string key_;
  mutable std::mutex mutex_;
  std::vector<boost::json::object> bodies_;
  std::vector<std::string> authorizations_;
  std::vector<std::thread> threads_;
  std::atomic<std::size_t> running_{0};
  std::atomic<std::size_t> running_max_{0};
  std::atomic<bool> stopping_{false};
  std::unique_ptr<transport::http::server> server_;
};

} // namespace godwit::main::test
