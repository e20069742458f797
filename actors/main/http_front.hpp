#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"
#include "main/tracing.hpp"

#include <godwit/actors/frontend_gate.hpp>
#include <godwit/actors/http_gate.hpp>
#include <godwit/actors/openai_edge.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/protocols/openai/chat_template.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/transport/http/server.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::main {

class http_files;

/// As a part of a URL: an IPv6 address is in brackets.
[[nodiscard]] std::string host_for_url(const std::string& host);

/// The HTTP endpoint of a process that takes requests: of `godwit serve`, and of `godwit frontend`.
class http_front {
public:
  /// What it speaks for; of what is pointed at each must live longer.
  struct parts {
    std::string model_name;
    std::uint32_t context_length = 0;
    std::shared_ptr<const protocols::openai::chat_template> chat;
    std::shared_ptr<actors::frontend_gate> requests; ///< where they go
    runtime::metrics::registry* metrics = nullptr;
    tracing* records = nullptr; ///< null: nothing is recorded
    runtime::log::logger log;
  };
  http_front(const serve_settings& settings, parts given, const gpu::model::model_directory& model);
  http_front(const http_front&) = delete;
  http_front& operator=(const http_front&) = delete;
  ~http_front(); ///< end()

  /// Reads keys and certificates, and opens the port: from now on requests come.
  [[nodiscard]] std::optional<start_error> listen();
  void refuse_new();
  /// Refuses new requests and waits for running ones. `hurry` is asked a few times a second. False: cut off.
  [[nodiscard]] bool drain(std::chrono::milliseconds timeout, const std::function<bool()>& hurry);
  /// Goes on for so long, or until somebody is in a `hurry`, but tells who asks after its health that it ends.
  void linger(std::chrono::milliseconds time, const std::function<bool()>& hurry);
  /// Closes the port, once what its clients are told last is on its way. To be called when nobody submits any more and
  /// every request has heard of its end, before the actors' system is gone.
  void end();
  [[nodiscard]] std::string url() const;

private:
  [[nodiscard]] actors::edge_options edge_options(const gpu::model::model_directory& model);

  const serve_settings& settings_;
  const parts parts_;
  std::string host_;
  std::unique_ptr<actors::openai_edge> edge_;
  std::unique_ptr<actors::http_gate> gate_;
  std::unique_ptr<transport::http::server> server_;
  std::vector<runtime::metrics::registry::registration> server_metrics_;
  std::unique_ptr<http_files> files_;
};

} // namespace godwit::main
