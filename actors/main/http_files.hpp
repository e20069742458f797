#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/actors/http_gate.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/transport/http/server.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace godwit::main {

/// The API keys and the certificate of the HTTP endpoint: read from their files at the start, and again whenever those
/// have changed, which a thread of its own looks for every second. Files that cannot be used then are logged once, and
/// what was read before stays. No signal is needed, so that secrets that something else renews just work.
class http_files {
public:
  http_files(const serve_settings& settings, actors::http_gate& gate, transport::http::server& server,
             runtime::log::logger log);
  ~http_files();
  http_files(const http_files&) = delete;
  http_files& operator=(const http_files&) = delete;

  /// Reads the files, and begins to watch them.
  [[nodiscard]] std::optional<start_error> start(std::chrono::milliseconds look_every = std::chrono::seconds(1));

private:
  /// One or two files that are used together.
  struct watched {
    std::vector<std::string> paths;
    std::string what;
    std::function<std::optional<std::string>()> read; ///< the error is one line
    std::string state;                                ///< of the files when they were read
    std::string failure = {};                         ///< why they could not be read the last time, which was told
  };
  [[nodiscard]] std::optional<std::string> read_keys(const std::string& path);
  void look() noexcept;
  /// For want of memory, descriptors or a right, say, which may be there in a moment: it is told once, and the files
  /// are read again.
  void failed(watched& one, const char* why) noexcept;
  void watch(std::chrono::milliseconds every);

  actors::http_gate& gate_;
  transport::http::server& server_;
  runtime::log::logger log_;
  std::vector<watched> watched_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_; // last: uses the rest
};

} // namespace godwit::main
