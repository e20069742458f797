#include "http/front.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/http_gate.hpp>
#include <godwit/actors/openai_edge.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/http/server.hpp>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <vector>

namespace godwit::bench {

namespace {

constexpr std::uint32_t context = 4096;
constexpr std::uint32_t vocabulary = 512;

/// When which token was made; rows are streams.
struct made_tokens {
  std::size_t tokens = 0;
  std::vector<std::atomic<std::int64_t>> at;
};

/// A device that computes nothing. With a pace it ends its steps on a thread of its own, at multiples of the pace.
class free_device final : public gpu::executor {
public:
  free_device(protocols::token_id says, std::chrono::microseconds every, std::chrono::microseconds phase,
              std::shared_ptr<made_tokens>& made)
      : says_(says), step_(every), phase_(phase), made_(made) {
    info_.device = "none";
    info_.layers = 1;
    info_.vocabulary = vocabulary;
    info_.positions_max = context;
    info_.blocks = 1 << 16;
    info_.block_bytes = 16;
    info_.kv_layout = "none";
    if (step_.count() > 0) pacer_ = std::thread([this] { run(); });
  }
  ~free_device() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    if (pacer_.joinable()) pacer_.join();
  }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    return std::make_unique<step>(*this, std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }

private:
  class step final : public gpu::forward {
  public:
    step(free_device& owner, protocols::step_input input) : owner_(owner), input_(std::move(input)) {}
    [[nodiscard]] std::uint32_t layers() const noexcept override { return 1; }
    void advance(std::uint32_t, gpu::completion done) override {
      if (owner_.step_.count() == 0) {
        owner_.note(input_);
        return done({});
      }
      const std::lock_guard lock(owner_.mutex_);
      owner_.waiting_ = [this, done = std::move(done)] {
        owner_.note(input_);
        done({});
      };
      owner_.wake_.notify_all();
    }
    [[nodiscard]] protocols::step_output take() override {
      protocols::step_output out;
      out.step = input_.step;
      for (const auto& slice : input_.slices)
        if (slice.samples) out.tokens.emplace_back(owner_.says_);
      return out;
    }

  private:
    free_device& owner_;
    protocols::step_input input_;
  };

  void note(const protocols::step_input& input) {
    const auto made = made_;
    if (!made) return;
    const auto now = bench_clock::now().time_since_epoch().count();
    for (const auto& slice : input.slices) {
      if (slice.first_position == 0 && slice.tokens.size() >= 2)
        streams_[slice.request] = static_cast<std::size_t>(slice.tokens[0] * 100 + slice.tokens[1]);
      if (!slice.samples) continue;
      const auto stream = streams_.find(slice.request);
      if (stream == streams_.end()) continue;
      const auto at = stream->second * made->tokens + slice.sample_index;
      if (slice.sample_index < made->tokens && at < made->at.size()) made->at[at].store(now, std::memory_order_relaxed);
    }
  }
  void run() {
    auto next = bench_clock::time_point(phase_);
    for (;;) {
      std::function<void()> end;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return ending_ || waiting_; });
        if (ending_) return;
        end.swap(waiting_);
      }
      const auto now = bench_clock::now();
      next += ((now - next) / step_ + 1) * step_;
      std::this_thread::sleep_until(next);
      end();
    }
  }

  const protocols::token_id says_;
  const std::chrono::microseconds step_, phase_;
  std::shared_ptr<made_tokens>& made_;
  gpu::executor_info info_;
  std::unordered_map<protocols::request_id, std::size_t> streams_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> waiting_;
  bool ending_ = false;
  std::thread pacer_;
};

} // namespace

class front::impl {
public:
  explicit impl(const options& wanted) {
    const auto files = gpu::model::embedded_model();
    if (!files) throw std::runtime_error("this build has no built-in model, whose tokenizer is wanted");
    auto model = gpu::model::open_model(files);
    if (!model) throw std::runtime_error(model.error().what());
    const auto says = model->tokens->encode(" hacker", false).front();

    actors::node_options node;
    node.model = model->name;
    node.instances = wanted.instances;
    node.llumlet.planner.running_max = wanted.sequences_max;
    node.llumlet.planner.waiting_max = 4096;
    node.llumlet.planner.step_tokens_max = 8192;
    node.llumlet.planner.context_length = context;
    node.frontend.metrics = std::make_shared<actors::frontend_metrics>(metrics_, model->name, context);
    node.instance.make_executor = [this, says, wanted](protocols::instance_id id,
                                                       std::function<void(actors::executor_outcome)> done) {
      actors::executor_outcome out;
      const auto phase = wanted.step * static_cast<int>(id.value()) / static_cast<int>(wanted.instances);
      out.made = std::make_unique<free_device>(says, wanted.step,
                                               std::chrono::duration_cast<std::chrono::microseconds>(phase), made_);
      done(std::move(out));
    };
    cluster_ = std::make_unique<actors::cluster>(system_, node);
    if (!cluster_->gate()->wait_ready(wanted.instances, std::chrono::seconds(30)))
      throw std::runtime_error("the instances did not get ready");

    actors::edge_options edge;
    edge.model.name = model->name;
    edge.model.tokens = model->tokens;
    edge.model.context_length = context;
    edge.model.vocabulary = vocabulary;
    edge.version = "bench";
    edge.unix_time_s = [] { return std::int64_t{1}; };
    edge.random_seed = 0;
    edge.metrics = &metrics_;
    edge_ = std::make_unique<actors::openai_edge>(cluster_->gate(), edge);
    gate_ = std::make_unique<actors::http_gate>(
        [this](transport::http::request r, std::shared_ptr<transport::http::exchange> e) {
          edge_->handle(std::move(r), std::move(e));
        },
        actors::gate_options{});
    transport::http::server_settings settings;
    settings.threads = wanted.http_threads;
    settings.connections_per_address_max = 0;
    server_ = std::make_unique<transport::http::server>(
        settings, [this](transport::http::request r, std::shared_ptr<transport::http::exchange> e) {
          gate_->handle(std::move(r), std::move(e));
        });
    if (const auto failed = server_->listen("127.0.0.1", 0)) throw std::runtime_error(failed->message);
  }
  ~impl() {
    cluster_.reset();
    server_->stop();
    edge_.reset();
    system_.shutdown(std::chrono::seconds(5));
  }
  [[nodiscard]] std::uint16_t port() const { return server_->local_port(); }

  std::shared_ptr<made_tokens> made_;

private:
  runtime::metrics::registry metrics_;
  runtime::actor_system system_;
  std::unique_ptr<actors::cluster> cluster_;
  std::unique_ptr<actors::openai_edge> edge_;
  std::unique_ptr<actors::http_gate> gate_;
  std::unique_ptr<transport::http::server> server_;
};

front::front(const options& wanted) : impl_(std::make_unique<impl>(wanted)) {}
front::~front() = default;
std::uint16_t front::port() const noexcept { return impl_->port(); }

void front::expect(std::size_t streams, std::size_t tokens) {
  auto made = std::make_shared<made_tokens>();
  made->tokens = tokens;
  made->at = std::vector<std::atomic<std::int64_t>>(streams * tokens);
  impl_->made_ = std::move(made);
}

bench_clock::time_point front::made_at(std::size_t stream, std::size_t index) const {
  const auto& made = *impl_->made_;
  return bench_clock::time_point(bench_clock::duration(made.at[stream * made.tokens + index].load()));
}

std::string front::request_of(std::size_t stream, std::size_t tokens) {
  const auto body = "{\"prompt\":[" + std::to_string(stream / 100) + "," + std::to_string(stream % 100) +
                    ",3],\"stream\":true,\"ignore_eos\":true,\"seed\":1,\"max_tokens\":" + std::to_string(tokens) + "}";
  return "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

} // namespace godwit::bench
