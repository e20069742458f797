#pragma once

#include <godwit/actors/answer_sink.hpp>
#include <godwit/actors/provisioner.hpp>
#include <godwit/actors/trace_control.hpp>
#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/transport/disk.hpp>
#include <godwit/transport/fabric.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// What stands around the actors of a replay instead of devices, clients and the network: it does nothing, since all
/// that these did comes out of the recording (runtime/sim/replay.hpp).
namespace godwit::actors {

/// Keeps a function that somebody wants called back: the recording brings what that call brought.
template <class Function> void keep_for_replay(Function function) {
  if (auto* source = runtime::trace::replaying()) source->keep(std::make_shared<Function>(std::move(function)));
}

class replayed_adapters final : public gpu::adapter_store {
public:
  void load(const protocols::adapter_ref&, std::weak_ptr<const void>,
            std::function<void(gpu::adapter_outcome)> done) override {
    keep_for_replay(std::move(done));
  }
  [[nodiscard]] gpu::adapter_counts counts() const override { return {}; }
};

class replayed_swap_space final : public gpu::swap_space {
public:
  explicit replayed_swap_space(std::uint32_t slots) : slots_(slots) {}
  [[nodiscard]] std::uint32_t slots() const noexcept override { return slots_; }
  void copy_out(std::vector<gpu::swap_move>, completion done) override { keep_for_replay(std::move(done)); }
  void copy_in(std::vector<gpu::swap_move>, completion done) override { keep_for_replay(std::move(done)); }

private:
  std::uint32_t slots_;
};

class replayed_disk final : public transport::disk {
public:
  replayed_disk(std::uint32_t slots, std::size_t slot_bytes) : slots_(slots), slot_bytes_(slot_bytes) {}
  [[nodiscard]] std::uint32_t slots() const noexcept override { return slots_; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept override { return slot_bytes_; }
  void write(std::uint32_t, std::uint64_t, const std::byte*, std::shared_ptr<void>,
             std::function<void(std::string)> done) override {
    keep_for_replay(std::move(done));
  }
  void read(std::uint32_t, std::uint64_t, std::byte*, std::shared_ptr<void>,
            std::function<void(std::string)> done) override {
    keep_for_replay(std::move(done));
  }

private:
  std::uint32_t slots_;
  std::size_t slot_bytes_;
};

class replayed_division final : public gpu::pipeline::layer_division {
public:
  replayed_division(std::vector<std::uint32_t> layers, std::vector<double> beside)
      : layers_(std::move(layers)), beside_(std::move(beside)) {}
  [[nodiscard]] std::vector<std::uint32_t> layers() const override { return layers_; }
  [[nodiscard]] std::vector<double> beside() const override { return beside_; }
  void move(const std::vector<std::uint32_t>&, gpu::completion done) override { keep_for_replay(std::move(done)); }

private:
  std::vector<std::uint32_t> layers_;
  std::vector<double> beside_;
};

/// What there was beside an executor's device.
struct replayed_parts {
  std::uint32_t shards = 0;               ///< devices that it is divided among; 0: it is one
  std::vector<std::uint32_t> stages = {}; ///< layers of devices that have some each; empty: one has all
  bool adapters = false;                  ///< a store of them
  std::uint32_t swap_slots = 0;
  std::optional<gpu::executor_info> draft; ///< a draft model
  std::vector<double> beside = {};         ///< of stages whose layers move, what they do beside them; empty: they stay
};

class replayed_executor final : public gpu::executor {
public:
  explicit replayed_executor(const gpu::executor_info& info, const replayed_parts& parts = {})
      : info_(info), adapters_(parts.adapters ? std::make_shared<replayed_adapters>() : nullptr),
        swap_(parts.swap_slots > 0 ? std::make_shared<replayed_swap_space>(parts.swap_slots) : nullptr),
        draft_(parts.draft ? std::make_shared<replayed_executor>(*parts.draft) : nullptr) {
    for (std::uint32_t rank = 0; rank < parts.shards; ++rank)
      shards_.push_back(std::make_shared<replayed_executor>(info));
    for (const auto layers : parts.stages) {
      auto own = info;
      own.layers = layers;
      stages_.push_back(std::make_shared<replayed_executor>(own));
    }
    if (!parts.beside.empty()) division_ = std::make_shared<replayed_division>(parts.stages, parts.beside);
  }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input) override {
    return std::make_unique<step>(info_.layers);
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] std::span<const std::shared_ptr<gpu::executor>> shards() const noexcept override { return shards_; }
  [[nodiscard]] std::span<const std::shared_ptr<gpu::executor>> stages() const noexcept override { return stages_; }
  [[nodiscard]] std::shared_ptr<gpu::pipeline::layer_division> division() const override { return division_; }
  [[nodiscard]] std::shared_ptr<gpu::adapter_store> adapters() const override { return adapters_; }
  [[nodiscard]] std::shared_ptr<gpu::swap_space> swap() const override { return swap_; }
  [[nodiscard]] std::shared_ptr<gpu::executor> draft() const override { return draft_; }

private:
  class step final : public gpu::forward {
  public:
    explicit step(std::uint32_t layers) : layers_(layers) {}
    [[nodiscard]] std::uint32_t layers() const noexcept override { return layers_; }
    void advance(std::uint32_t, gpu::completion done) override { keep_for_replay(std::move(done)); }
    [[nodiscard]] protocols::step_output take() override { return {}; }

  private:
    std::uint32_t layers_;
  };
  gpu::executor_info info_;
  std::shared_ptr<gpu::adapter_store> adapters_;
  std::shared_ptr<gpu::swap_space> swap_;
  std::shared_ptr<gpu::executor> draft_;
  std::vector<std::shared_ptr<gpu::executor>> shards_, stages_;
  std::shared_ptr<gpu::pipeline::layer_division> division_;
};

class replayed_sink final : public answer_sink {
public:
  [[nodiscard]] bool on_tokens(std::span<const protocols::sampled_token>, bool) override { return true; }
  void on_finished(protocols::finish_reason, const answer_usage&) override {}
  void on_failed(const answer_failure&) override {}
};

class replayed_fabric final : public transport::fabric {
public:
  [[nodiscard]] std::string address() const override { return {}; }
  void post(transport::transfer_key, std::vector<protocols::memory_region>, std::shared_ptr<void>,
            std::function<void(transport::landing)> on_landed) override {
    keep_for_replay(std::move(on_landed));
  }
  void withdraw(transport::transfer_key, std::function<void()> done) override { keep_for_replay(std::move(done)); }
  void send(const std::string&, transport::transfer_key, std::uint32_t, std::vector<protocols::memory_region>,
            transport::transfer_priority, std::chrono::nanoseconds, std::shared_ptr<void>,
            std::function<void(std::string)> done) override {
    keep_for_replay(std::move(done));
  }
  [[nodiscard]] counters figures() const override { return {}; }
};

class replayed_trace_control final : public trace_control {
public:
  [[nodiscard]] trace_state set(const trace_order&) override { return {}; } // not asked: the recording has the answer
  void dump(const dump_order&, std::function<void(dumped_file)> done) override { keep_for_replay(std::move(done)); }
  void read(const dump_part_query&, std::function<void(dump_part)> done) override { keep_for_replay(std::move(done)); }
};

class replayed_provisioner final : public provisioner {
public:
  void order(const std::string&, std::function<void(std::string)> failed) override {
    keep_for_replay(std::move(failed));
  }
  void release(const std::string&, std::optional<protocols::instance_id>) override {}
};

} // namespace godwit::actors
