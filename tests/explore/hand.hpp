#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace godwit::explore {

/// What an operator's hand has ordered.
struct hand_journal {
  std::uint32_t open = 0; ///< asked for and not answered yet
  std::uint32_t committed = 0;
  std::uint32_t migrations = 0; ///< that ended
  /// What the head said when it was last asked how it is; empty while it has not answered.
  std::optional<runtime::async::expected<protocols::cluster_status>> status;
};

struct hand_interface
    : runtime::interface<void(actors::migrate_request), void(actors::drain_instance), void(actors::policy_order),
                         void(actors::role_order), void(actors::status_query)> {};

/// An operator: gives orders to the head and waits for each answer.
class hand final : public runtime::actor<hand_interface> {
public:
  hand(runtime::actor_context context, runtime::handle<actors::node_interface> head,
       std::shared_ptr<hand_journal> journal)
      : actor(context), head_(std::move(head)), journal_(std::move(journal)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "operator"; }
  [[nodiscard]] runtime::behavior_of<hand_interface> make_behavior() override {
    return {[this](actors::migrate_request& order) { start(migrate(std::move(order))); },
            [this](actors::drain_instance& order) { start(give(order)); },
            [this](actors::policy_order& order) { start(give(std::move(order))); },
            [this](actors::role_order& order) { start(give(order)); },
            [this](actors::status_query& query) { start(look(query)); }};
  }

private:
  /// Longer than anybody waits for the end of a run: an order without an answer stays open.
  static constexpr std::chrono::minutes patience{30};
  static constexpr std::chrono::seconds status_patience{30};
  runtime::async::task<void> migrate(actors::migrate_request order) {
    ++journal_->open;
    auto report = co_await ask(head_, patience, std::move(order));
    --journal_->open;
    ++journal_->migrations;
    if (report && report->committed()) ++journal_->committed;
  }
  template <class Order> runtime::async::task<void> give(Order order) {
    ++journal_->open;
    auto answer = co_await ask(head_, patience, std::move(order));
    --journal_->open;
    (void)answer; // what is refused is refused
  }
  runtime::async::task<void> look(actors::status_query query) {
    journal_->status.reset();
    auto status = co_await ask(head_, status_patience, query);
    journal_->status = std::move(status);
  }
  runtime::handle<actors::node_interface> head_;
  std::shared_ptr<hand_journal> journal_;
};

} // namespace godwit::explore
