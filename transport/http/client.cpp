#include <godwit/transport/http/client.hpp>

#include "http/client_call.hpp"
#include "http/worker.hpp"

#include <algorithm>
#include <atomic>
#include <future>

namespace godwit::transport::http {

class client::impl {
public:
  explicit impl(const client_settings& s) : settings_(s) {
    for (std::uint32_t i = 0; i < std::max<std::uint32_t>(1, s.threads); ++i)
      lanes_.push_back(std::make_unique<lane>());
  }
  ~impl() {
    for (const auto& l : lanes_)
      asio::post(l->thread.get(), [&shared = l->shared] {
        shared.closing = true;
        for (auto* c : shared.calls) c->close(client_error_kind::cancelled);
      });
    for (const auto& l : lanes_) l->thread.finish();
    for (const auto& l : lanes_) l->shared.idle.clear(); // sockets go before the context that they belong to
  }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;

  std::shared_ptr<call> send(client_request request, client_callbacks callbacks) {
    auto& chosen = *lanes_[next_.fetch_add(1) % lanes_.size()];
    auto made = std::make_shared<client_call>(chosen.thread.get(), chosen.shared, settings_, std::move(request),
                                              std::move(callbacks));
    auto handle = made->handle();
    asio::post(chosen.thread.get(), [made = std::move(made)] { made->start(); });
    return handle;
  }

  [[nodiscard]] const client_settings& settings() const noexcept { return settings_; }

private:
  struct lane {
    client_lane shared;
    worker thread;
  };
  const client_settings settings_;
  std::vector<std::unique_ptr<lane>> lanes_;
  std::atomic<std::size_t> next_{0};
};

client::client(client_settings settings) : impl_(std::make_unique<impl>(settings)) {}
client::~client() = default;

std::shared_ptr<call> client::send(client_request request, client_callbacks callbacks) {
  return impl_->send(std::move(request), std::move(callbacks));
}

std::variant<client_answer, client_error> client::fetch(client_request request) {
  using result = std::variant<client_answer, client_error>;
  struct fetching {
    client_answer answer;
    std::promise<result> promise;
    bool over = false; ///< it is too long, and whoever waits knows
  };
  auto state = std::make_shared<fetching>();
  auto future = state->promise.get_future();
  auto callbacks = client_callbacks();
  callbacks.on_head = [state](int status, const headers& fields) {
    state->answer.status = status;
    state->answer.fields = fields;
  };
  callbacks.on_data = [state, most = impl_->settings().fetched_bytes_max, url = request.url](std::string_view bytes) {
    if (state->over) return;
    auto& body = state->answer.body;
    if (bytes.size() <= most - body.size()) {
      body.append(bytes);
      return;
    }
    state->over = true;
    state->promise.set_value(client_error{client_error_kind::protocol, "the answer of " + url + " has more than " +
                                                                           std::to_string(most) + " bytes"});
  };
  callbacks.on_done = [state](std::optional<client_error> problem) {
    if (state->over) return;
    state->promise.set_value(problem ? result(std::move(*problem)) : result(std::move(state->answer)));
  };
  const auto running = send(std::move(request), std::move(callbacks));
  auto out = future.get();
  if (state->over) running->cancel();
  return out;
}

} // namespace godwit::transport::http
