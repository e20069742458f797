#include <godwit/transport/in_process/fabric.hpp>

#include "in_process/hub.hpp"

#include <utility>

namespace godwit::transport::in_process {

namespace {

class member_fabric final : public fabric {
public:
  explicit member_fabric(std::shared_ptr<hub> shared) : hub_(std::move(shared)), self_(hub_->join()) {}
  ~member_fabric() override { hub_->leave(self_); }

  [[nodiscard]] std::string address() const override { return self_->address; }

  void post(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
            std::function<void(landing)> on_landed) override {
    auto error = kind_of(regions, hub_->reaches_devices()).error;
    if (error.empty()) error = self_->table.open(key, std::move(regions), std::move(keep), on_landed);
    if (!error.empty())
      hub_->call([on_landed = std::move(on_landed), error = std::move(error)] { on_landed(landing{0, error}); });
  }

  void withdraw(transfer_key key, std::function<void()> done) override {
    for (auto& call : self_->table.close(key, std::move(done))) hub_->call(std::move(call));
  }

  void send(const std::string& peer, transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transfer_priority priority, std::chrono::nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done) override {
    hub_->send(self_, peer, key, first_region, std::move(regions), priority, timeout, std::move(keep), std::move(done));
  }

  [[nodiscard]] counters figures() const override {
    auto out = hub_->figures(*self_);
    out.postings_open = self_->table.open_count();
    out.refused = self_->table.refused_count();
    return out;
  }

private:
  std::shared_ptr<hub> hub_;
  std::shared_ptr<member> self_;
};

} // namespace

std::shared_ptr<hub> make_hub(settings options) { return std::make_shared<hub>(options); }

std::shared_ptr<fabric> make_fabric(std::shared_ptr<hub> shared) {
  return std::make_shared<member_fabric>(std::move(shared));
}

} // namespace godwit::transport::in_process
