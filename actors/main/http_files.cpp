#include "main/http_files.hpp"

#include "main/counted.hpp"

#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <sys/stat.h>

namespace godwit::main {

namespace {

constexpr std::streamsize keys_bytes_max = 1024 * 1024;

bool is_folder(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

/// Differs when a file was written, replaced, given to another owner, or its link leads elsewhere.
std::string state_of(const std::vector<std::string>& paths) {
  std::string out;
  for (const auto& path : paths) {
    struct stat now {};
    if (::stat(path.c_str(), &now) != 0) {
      out += "none;";
      continue;
    }
    out += std::to_string(now.st_dev) + "," + std::to_string(now.st_ino) + "," + std::to_string(now.st_size) + "," +
           std::to_string(now.st_mtim.tv_sec) + "." + std::to_string(now.st_mtim.tv_nsec) + "," +
           std::to_string(now.st_ctim.tv_sec) + "." + std::to_string(now.st_ctim.tv_nsec) + ";";
  }
  return out;
}

} // namespace

http_files::http_files(const serve_settings& settings, actors::http_gate& gate, transport::http::server& server,
                       runtime::log::logger log)
    : gate_(gate), server_(server), log_(std::move(log)) {
  if (const auto& path = settings.http.api_key_file; !path.empty())
    watched_.push_back({{path}, "API keys", [this, path] { return read_keys(path); }, {}});
  if (!settings.http.tls_cert.empty()) {
    const transport::http::tls_files files{settings.http.tls_cert, settings.http.tls_key};
    watched_.push_back(
        {{files.certificate, files.key}, "certificate", [this, files] { return server_.use_tls(files); }, {}});
  }
}

http_files::~http_files() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<start_error> http_files::start(std::chrono::milliseconds look_every) {
  for (auto& one : watched_) {
    one.state = state_of(one.paths);
    if (auto wrong = one.read()) return start_error{std::move(*wrong), 2};
  }
  if (!watched_.empty()) thread_ = std::thread([this, look_every] { watch(look_every); });
  return std::nullopt;
}

std::optional<std::string> http_files::read_keys(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || is_folder(path)) return "cannot read the API keys of " + path;
  std::string text;
  text.resize(static_cast<std::size_t>(keys_bytes_max) + 1);
  in.read(text.data(), keys_bytes_max + 1);
  if (in.bad()) return "cannot read the API keys of " + path;
  if (in.gcount() > keys_bytes_max) return path + ": a file of API keys is no larger than 1 MiB";
  text.resize(static_cast<std::size_t>(in.gcount()));
  auto keys = actors::api_keys::parse(text);
  if (!keys) return path + ": " + keys.error();
  struct stat now {};
  if (::stat(path.c_str(), &now) == 0 && (now.st_mode & S_IROTH) != 0)
    log_.warning("everybody on this machine can read the API keys of {}", path);
  log_.info("asks for {} of {}", counted(keys->size(), "API key"), path);
  gate_.set_keys(std::make_shared<const actors::api_keys>(std::move(*keys)));
  return std::nullopt;
}

void http_files::look() noexcept {
  for (auto& one : watched_) {
    try {
      auto now = state_of(one.paths);
      if (now == one.state) continue;
      one.state = std::move(now);
      if (const auto wrong = one.read()) {
        failed(one, wrong->c_str());
        continue;
      }
      log_.info("read the {} again", one.what);
      one.failure.clear();
    } catch (const std::exception& failure) {
      failed(one, failure.what());
    }
  }
}

void http_files::failed(watched& one, const char* why) noexcept {
  one.state.clear();
  if (one.failure == why) return;
  try {
    one.failure = why;
    log_.error("{}; the {} as read before stays in use until it can be read", one.failure, one.what);
  } catch (const std::exception&) {
  } // there is nobody left to tell
}

void http_files::watch(std::chrono::milliseconds every) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, every, [this] { return ending_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

} // namespace godwit::main
