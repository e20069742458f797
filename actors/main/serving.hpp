#pragma once

#include "main/http_front.hpp"
#include "main/load_board.hpp"
#include "main/loader.hpp"
#include "main/parts.hpp"
#include "main/provisioners.hpp"
#include "main/settings.hpp"
#include "main/tracing.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/fabric.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace godwit::main {

/// Stands between an instance and the device that was made for it, on the loader's thread. Empty: nobody does.
using device_watch = std::function<std::shared_ptr<gpu::executor>(std::shared_ptr<gpu::executor>)>;

/// A node with its HTTP endpoint and control port: what `godwit serve` and `godwit demo` run.
class serving {
public:
  /// Listens at once (health says 503) and begins to load the model. `records` must live longer; null: nothing is
  /// recorded. `parts` is what processes that autoscaling starts are told.
  [[nodiscard]] static protocols::expected<std::unique_ptr<serving>, start_error>
  start(const serve_settings& settings, gpu::model::model_directory model, runtime::log::logger log,
        tracing* records = nullptr, launch_parts parts = {}, chosen_device cuda = {}, device_watch watch = {});
  serving(const serving&) = delete;
  serving& operator=(const serving&) = delete;
  ~serving();

  /// Until every instance of this process takes requests. `give_up` is asked a few times a second. The line says what
  /// went wrong; empty: given up.
  [[nodiscard]] std::optional<start_error> wait_ready(const std::function<bool()>& give_up);
  /// Tells members that this process ends once what is open has ended.
  void end_soon();
  /// Refuses new requests and waits for running ones. `hurry` is asked a few times a second. False: cut off.
  [[nodiscard]] bool drain(std::chrono::milliseconds timeout, const std::function<bool()>& hurry) {
    return http_->drain(timeout, hurry);
  }
  /// Goes on for so long, or until somebody is in a `hurry`, but tells who asks after its health that it ends.
  void linger(std::chrono::milliseconds time, const std::function<bool()>& hurry) { http_->linger(time, hurry); }
  [[nodiscard]] load_board::sums load() const { return board_->all(); }
  /// Whether some instance does: what /health says, but for the end.
  [[nodiscard]] bool takes_requests() const { return cluster_->gate()->ready(); }

  /// False: its actors have ended, by nobody's order of this process.
  [[nodiscard]] bool alive() const noexcept { return cluster_->alive(); }

  [[nodiscard]] std::string url() const { return http_->url(); }
  [[nodiscard]] std::string control() const { return control_; } ///< HOST:PORT, or empty
  /// The same as other machines know it.
  [[nodiscard]] std::string advertised() const;
  [[nodiscard]] actors::cluster& cluster() noexcept { return *cluster_; }
  [[nodiscard]] const std::string& model_name() const noexcept { return model_name_; }
  [[nodiscard]] std::uint32_t context_length() const noexcept { return context_length_; }

private:
  /// The control port as processes of this machine know it.
  [[nodiscard]] std::string from_here() const;
  serving(const serve_settings& settings, gpu::model::model_directory model, actors::model_identity identity,
          std::shared_ptr<const protocols::openai::chat_template> chat, std::shared_ptr<transport::fabric> fabric,
          std::shared_ptr<transport::disk> disk, std::shared_ptr<runtime::async::connection_gate> gate,
          runtime::log::logger log, tracing* records, launch_parts parts, chosen_device cuda, device_watch watch);
  [[nodiscard]] std::optional<start_error> open_ports();
  [[nodiscard]] std::optional<start_error> check_own_memory();
  [[nodiscard]] actors::node_options node_options(const gpu::model::model_directory& model);

  serve_settings settings_;
  actors::model_identity identity_;
  std::shared_ptr<const protocols::openai::chat_template> chat_;
  runtime::log::logger log_;
  tracing* records_;
  device_watch watch_;
  std::string model_name_;
  std::uint32_t context_length_ = 0;
  std::string control_;
  // In the order of their making; undone in the opposite one.
  runtime::metrics::registry metrics_;
  std::unique_ptr<load_board> board_;
  std::unique_ptr<loader> loader_;
  std::shared_ptr<process_source> processes_; // null: instances in this process only
  std::shared_ptr<transport::fabric> fabric_;
  std::shared_ptr<transport::disk> disk_;
  std::unique_ptr<runtime::actor_system> system_;
  std::unique_ptr<actors::cluster> cluster_;
  std::unique_ptr<http_front> http_;
  std::vector<runtime::metrics::registry::registration> process_metrics_;
  std::vector<runtime::metrics::registry::registration> adapter_metrics_;
};

} // namespace godwit::main
