#pragma once

#include "actors/support/sim_cluster.hpp"

#include <godwit/runtime/actor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

/// What became of the migrations that a mover ordered.
struct move_journal {
  std::uint32_t open = 0;
  std::vector<protocols::migration_report> reports;
  [[nodiscard]] std::uint32_t committed() const {
    std::uint32_t sum = 0;
    for (const auto& report : reports) sum += report.committed() ? 1 : 0;
    return sum;
  }
  [[nodiscard]] std::uint32_t count(protocols::migration_outcome outcome) const {
    std::uint32_t sum = 0;
    for (const auto& report : reports) sum += report.outcome == outcome ? 1 : 0;
    return sum;
  }
};

struct mover_interface : runtime::interface<void(actors::migrate_request)> {};

/// Orders migrations and keeps their reports: many at a time, while the simulation goes on.
class mover final : public runtime::actor<mover_interface> {
public:
  mover(runtime::actor_context context, runtime::handle<actors::node_interface> node, std::shared_ptr<move_journal> to)
      : actor(context), node_(std::move(node)), journal_(std::move(to)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "mover"; }
  [[nodiscard]] runtime::behavior_of<mover_interface> make_behavior() override {
    return {[this](actors::migrate_request& order) { start(move(std::move(order))); }};
  }

private:
  runtime::async::task<void> move(actors::migrate_request order) {
    auto report = co_await ask(node_, std::chrono::minutes(20), std::move(order));
    --journal_->open;
    if (report) journal_->reports.push_back(std::move(*report));
  }
  runtime::handle<actors::node_interface> node_;
  std::shared_ptr<move_journal> journal_;
};

/// The mover of a cluster, from outside. Goes before the cluster.
class moves {
public:
  explicit moves(sim_cluster& cluster)
      : journal(std::make_shared<move_journal>()), cluster_(cluster),
        mover_(cluster.system->spawn<mover>(cluster.cluster->node(), journal)) {}
  moves(const moves&) = delete;
  moves& operator=(const moves&) = delete;
  ~moves() { cluster_.system->stop(mover_); }

  /// The request that was submitted as `number`.
  void order(std::uint32_t number, std::uint32_t to) {
    ++journal->open;
    cluster_.system->tell(mover_,
                          actors::migrate_request{{}, "r" + std::to_string(number), protocols::instance_id{to}});
  }
  /// Orders one migration and runs until it has ended.
  protocols::migration_report move(std::uint32_t number, std::uint32_t to) {
    const auto before = journal->reports.size();
    order(number, to);
    EXPECT_TRUE(cluster_.run_until([&] { return journal->reports.size() > before; }));
    return journal->reports.empty() ? protocols::migration_report{} : journal->reports.back();
  }
  bool run_until_settled() {
    return cluster_.run_until([&] { return journal->open == 0; });
  }

  const std::shared_ptr<move_journal> journal;

private:
  sim_cluster& cluster_;
  runtime::handle<mover_interface> mover_;
};

} // namespace godwit::test
