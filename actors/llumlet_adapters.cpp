#include <godwit/actors/llumlet.hpp>

#include <utility>

/// The llumlet's part in adapters: who is here holds what is computed for it.
namespace godwit::actors {

using runtime::async::task;

task<llumlet::adapter_answer> llumlet::hold(protocols::adapter_ref which, std::chrono::nanoseconds timeout) {
  adapter_answer answer;
  if (!which) co_return answer;
  if (!adapters_) {
    answer.reason = protocols::refusal::no_adapter;
    answer.why = "instance " + std::to_string(options_.id.value()) + " was started without adapters (--lora-dir)";
    warn_of_adapter(which, "this instance was started without adapters (--lora-dir)");
    co_return answer;
  }
  const std::shared_ptr<const void> asker = std::make_shared<const bool>(true); // gone with this frame
  auto load = [this, &which, &asker](runtime::completer<gpu::adapter_outcome> done) {
    adapters_->load(which, asker, [done](gpu::adapter_outcome outcome) { done(std::move(outcome)); });
  };
  auto outcome = co_await callback<gpu::adapter_outcome>(timeout, load);
  if (!outcome || (!outcome->held && outcome->passes)) {
    answer.reason = protocols::refusal::not_ready;
    co_return answer;
  }
  if (!outcome->held) {
    answer.reason = protocols::refusal::no_adapter;
    answer.why = "instance " + std::to_string(options_.id.value()) + ": " + outcome->error;
    warn_of_adapter(which, outcome->error);
    co_return answer;
  }
  answer.adapter = {std::move(which), std::move(outcome->held)};
  co_return answer;
}

// Its home goes elsewhere, so nobody else may ever say so; and every request may be the next one.
void llumlet::warn_of_adapter(const protocols::adapter_ref& which, const std::string& why) {
  constexpr std::chrono::seconds between{1};
  if (adapter_warned_ && now() - *adapter_warned_ < between) return;
  adapter_warned_ = now();
  options_.log.warning("instance {}: adapter {} cannot be had: {}", options_.id.value(), which.name, why);
}

} // namespace godwit::actors
