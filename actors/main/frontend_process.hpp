#pragma once

#include "main/http_front.hpp"
#include "main/member_process.hpp"
#include "main/parts.hpp"
#include "main/settings.hpp"
#include "main/tracing.hpp"

#include <godwit/actors/frontend_gate.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::main {

/// A process that takes clients' requests for a head elsewhere, and has no instance: what `godwit frontend --join`
/// runs. It reads of the model what makes tokens of text and text of tokens.
class frontend_process {
public:
  /// Opens the HTTP port, whose health is 503, and begins to join. `records` must live longer; null: nothing is
  /// recorded.
  [[nodiscard]] static protocols::expected<std::unique_ptr<frontend_process>, start_error>
  start(const serve_settings& settings, const endpoint& head, gpu::model::model_directory model,
        runtime::log::logger log, tracing* records = nullptr);
  frontend_process(const frontend_process&) = delete;
  frontend_process& operator=(const frontend_process&) = delete;
  ~frontend_process();

  /// As member_process::wait_joined.
  [[nodiscard]] std::optional<start_error> wait_joined(const std::function<bool()>& give_up) const;
  /// Whether some instance of the cluster does: what /health says, but for the end.
  [[nodiscard]] bool takes_requests() const { return gate_->ready(); }
  /// As those of http_front.
  void linger(std::chrono::milliseconds time, const std::function<bool()>& hurry) { http_->linger(time, hurry); }
  [[nodiscard]] bool drain(std::chrono::milliseconds timeout, const std::function<bool()>& hurry) {
    return http_->drain(timeout, hurry);
  }
  [[nodiscard]] actors::member_state state() const { return board_->get(); }
  /// False: its actors have ended, by nobody's order of this process.
  [[nodiscard]] bool alive() const noexcept { return !alive_.expired(); }
  [[nodiscard]] std::string url() const { return http_->url(); }
  [[nodiscard]] const std::string& model_name() const noexcept { return model_name_; }

private:
  frontend_process(const serve_settings& settings, const endpoint& head, const gpu::model::model_directory& model,
                   actors::model_identity identity, std::shared_ptr<const protocols::openai::chat_template> chat,
                   std::shared_ptr<runtime::async::connection_gate> gate, runtime::log::logger log, tracing* records);

  serve_settings settings_;
  tracing* records_;
  std::string head_;
  std::string model_name_;
  std::shared_ptr<member_board> board_ = std::make_shared<member_board>();
  std::weak_ptr<const void> alive_; ///< the member has it
  std::future<void> over_;          ///< the last front end is gone
  // In the order of their making; undone in the opposite one.
  runtime::metrics::registry metrics_;
  std::unique_ptr<runtime::actor_system> system_;
  std::unique_ptr<head_connector> connector_;
  std::shared_ptr<actors::frontend_gate> gate_;
  std::unique_ptr<http_front> http_;
  std::vector<runtime::metrics::registry::registration> process_metrics_;
  runtime::handle<actors::member_interface> member_;
};

} // namespace godwit::main
