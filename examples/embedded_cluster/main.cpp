// godwit inside a program of one's own: two instances of the built-in model, requests without HTTP.
// The second request moves to the other instance while it is answered, the third one loses its instance half-way, and
// both give the text of the first.
#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/machine.hpp>
#include <godwit/transport/in_process/fabric.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace godwit;
using namespace std::chrono_literals;

// Takes an answer as it is generated. Its calls come on the front end's context, so it only stores and signals.
class answer final : public actors::answer_sink {
public:
  explicit answer(std::shared_ptr<const gpu::model::tokenizer> tokens) : decoder_(std::move(tokens)) {}

  void on_accepted(protocols::request_id id) override {
    const std::lock_guard lock(mutex_);
    id_ = id;
  }
  bool on_tokens(std::span<const protocols::sampled_token> tokens, bool ends_with_stop_token) override {
    const std::lock_guard lock(mutex_);
    if (ends_with_stop_token) tokens = tokens.first(tokens.size() - 1);
    for (const auto& token : tokens) text_ += decoder_.feed(token.id);
    count_ += tokens.size();
    if (count_ >= 8 && !begun_told_) {
      begun_told_ = true;
      begun_.set_value();
    }
    return true;
  }
  void on_finished(protocols::finish_reason, const actors::answer_usage&) override { end({}); }
  void on_failed(const actors::answer_failure& failure) override { end(failure.message); }

  // Once eight tokens are there.
  protocols::request_id id() {
    const std::lock_guard lock(mutex_);
    return id_;
  }
  // True once eight tokens are there; false when that takes too long.
  bool wait_begun() { return begun_.get_future().wait_for(60s) == std::future_status::ready; }
  // The text, or nothing with a line on stderr.
  std::optional<std::string> wait_text() {
    auto ended = ended_.get_future();
    if (ended.wait_for(60s) != std::future_status::ready) {
      std::fputs("no answer within a minute\n", stderr);
      return std::nullopt;
    }
    if (const auto error = ended.get(); !error.empty()) {
      std::fprintf(stderr, "the request failed: %s\n", error.c_str());
      return std::nullopt;
    }
    const std::lock_guard lock(mutex_);
    return text_;
  }

private:
  void end(std::string error) {
    const std::lock_guard lock(mutex_);
    text_ += decoder_.finish();
    ended_.set_value(std::move(error));
  }
  std::mutex mutex_;
  gpu::model::incremental_decoder decoder_;
  std::string text_;
  protocols::request_id id_;
  std::size_t count_ = 0;
  bool begun_told_ = false;
  std::promise<void> begun_;
  std::promise<std::string> ended_;
};

std::shared_ptr<answer> submit(actors::cluster& cluster, const gpu::model::model_directory& model,
                               std::string_view prompt) {
  auto what = std::make_shared<actors::submission>();
  auto sink = std::make_shared<answer>(model.tokens);
  what->request.prompt = model.tokens->encode(prompt, false);
  what->request.sampling.temperature = 0.8F;
  what->request.sampling.seed = 2026;
  what->seeded = true;
  what->request.stop.max_tokens = 120;
  what->request.stop.ignore_eos = true;
  what->sink = sink;
  if (!cluster.gate()->submit({what})) return nullptr;
  return sink;
}

// The instance that has a request now.
std::optional<protocols::instance_id> busy_instance(actors::cluster& cluster) {
  const auto status = cluster.status(true);
  if (!status) return std::nullopt;
  for (const auto& instance : status->instances)
    if (!instance.requests.empty()) return instance.instance;
  return std::nullopt;
}

int run() {
  const auto files = gpu::model::embedded_model();
  if (!files) {
    std::fputs("this build of godwit has no built-in model\n", stderr);
    return 1;
  }
  const auto model = gpu::model::open_model(files);
  if (!model) {
    std::fprintf(stderr, "%s\n", model.error().what());
    return 1;
  }
  const auto weights = gpu::cpu::pack_model(model->configuration, *model->tensors);

  runtime::actor_system system; // first: the fabric, which the options hold, ends before it
  actors::node_options options;
  options.model = model->name;
  options.instances = 2;
  options.frontend.random_seed = runtime::entropy(); // for requests without a seed of their own
  options.instance.make_executor =
      [weights, tokens = model->tokens](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
        gpu::cpu::cpu_executor_settings settings;
        settings.threads = 1;
        settings.blocks = 64;
        settings.tokens = tokens; // for answers that have to follow a schema
        actors::executor_outcome made;
        try {
          made.made = gpu::cpu::make_cpu_executor(weights, settings);
        } catch (const std::exception& failure) {
          made.error = failure.what();
        }
        done(std::move(made));
      };

  // Requests can move while they run: KV blocks go from one instance's memory to the other's.
  options.llumlet.migration.fabric = transport::in_process::make_fabric(transport::in_process::make_hub());

  actors::cluster cluster(system, std::move(options));
  if (!cluster.gate()->wait_ready(2, 60s)) {
    std::fputs("the instances did not get ready\n", stderr);
    return 1;
  }

  constexpr std::string_view prompt = "A hacker is a person who";
  const auto calm = submit(cluster, *model, prompt);
  if (!calm) return 1;
  const auto expected = calm->wait_text();
  if (!expected) return 1;
  std::printf("%.*s%s\n\n", static_cast<int>(prompt.size()), prompt.data(), expected->c_str());

  const auto moved = submit(cluster, *model, prompt);
  if (!moved || !moved->wait_begun()) return 1;
  if (const auto from = busy_instance(cluster)) {
    const auto report = cluster.migrate(moved->id(), protocols::instance_id{1 - from->value()});
    if (report && report->committed())
      std::printf("moved to instance %u in %u stages, and stood still for %.1f ms\n", report->destination.value(),
                  report->stages, static_cast<double>(report->stall_ns) * 1e-6);
    else
      std::puts("it had ended before it could move");
  }
  const auto moved_text = moved->wait_text();
  if (!moved_text) return 1;
  std::puts(*moved_text == *expected ? "and the answer is the same\n" : "but the answer differs\n");

  const auto disturbed = submit(cluster, *model, prompt);
  if (!disturbed || !disturbed->wait_begun()) return 1;
  if (const auto victim = busy_instance(cluster)) {
    cluster.kill(*victim);
    std::printf("killed instance %u while it was answering\n", victim->value());
  }
  const auto text = disturbed->wait_text();
  if (!text) return 1;
  std::puts(*text == *expected ? "and the answer is the same" : "but the answer differs");
  return *moved_text == *expected && *text == *expected ? 0 : 1;
}

} // namespace

int main() { return run(); }
