#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace godwit::test {

/// A llumlet that accepts everything, unless told otherwise, and runs nothing.
class idle_llumlet final : public runtime::actor<actors::llumlet_interface> {
public:
  struct journal {
    std::vector<protocols::generate_request> admitted; ///< or refused
    std::vector<protocols::cancel_request> cancelled;
    std::vector<actors::migration_mark> marks;
    protocols::refusal answer = protocols::refusal::none; ///< to the next requests
  };
  idle_llumlet(runtime::actor_context context, std::shared_ptr<journal> to) : actor(context), to_(std::move(to)) {}
  [[nodiscard]] runtime::behavior_of<actors::llumlet_interface> make_behavior() override {
    using namespace actors;
    return {[this](generate_order& order) {
              to_->admitted.push_back(order.request);
              return protocols::admission{order.request.request, order.request.epoch, to_->answer, 0};
            },
            [this](protocols::cancel_request& order) { to_->cancelled.push_back(order); },
            [](topology&) {},
            [](status_query&) { return protocols::instance_status{}; },
            [](migrate_order&) { return protocols::migration_report{}; },
            [](open_migration&) { return migration_opened{}; },
            [](look_order&) { return look_answer{}; },
            [](park_order&) { return park_answer{}; },
            [](resume_order&) {},
            [](release_order&) {},
            [](settle_order&) { return settle_answer{}; },
            [](migration_news&) {},
            [](source_ended&) {},
            [](reserve_order&) { return reserve_answer{}; },
            [](return_order&) {},
            [](adopt_order&) { return adopt_answer{}; },
            [this](migration_mark& order) { to_->marks.push_back(std::move(order)); },
            [](drain_order&) {},
            [](role_order&) {}};
  }

private:
  std::shared_ptr<journal> to_;
};

} // namespace godwit::test
