#include "actors/support/llumlet_world.hpp"

#include <gtest/gtest.h>

#include <godwit/protocols/policy/pairing.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

namespace godwit::test {

using namespace std::chrono_literals;

std::uint32_t home_books::committed() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(reports, &protocols::migration_report::committed));
}

bool home_books::all_finished() const {
  return std::ranges::all_of(requests, [](const auto& entry) { return entry.second.finished(); });
}

namespace {

/// Grants what protocols::request_ownership grants.
class granting_home final : public runtime::actor<actors::home_interface> {
public:
  granting_home(runtime::actor_context context, std::shared_ptr<home_books> books)
      : actor(context), books_(std::move(books)) {}
  runtime::behavior_of<actors::home_interface> make_behavior() override {
    return {[this](protocols::token_updates& news) {
              for (const auto& update : news.updates) {
                (void)books_->requests[update.request].accept(update);
                if (update.first_index == 0) books_->queued_ns[update.request] = update.queue_ns;
              }
            },
            [this](protocols::prepare_move& wish) {
              auto& r = books_->requests[wish.request];
              const bool goes_on = books_->grants && r.owner() && r.current_epoch() == wish.epoch;
              return protocols::move_prepared{goes_on, r.next_index()};
            },
            [this](protocols::claim_request& wish) {
              auto& r = books_->requests[wish.request];
              if (wish.tail_index == 0 && !wish.tail.empty()) {
                books_->queued_ns[wish.request] = wish.queued_ns;
                books_->claim_brought_first.insert(wish.request);
              }
              (void)r.accept(wish.from, wish.tail_index, wish.tail, protocols::finish_reason::none);
              const auto granted = r.claim(wish.from, wish.instance, wish.generation);
              return granted ? protocols::claim_answer{true, *granted} : protocols::claim_answer{};
            },
            [this](protocols::reclaim_request& wish) {
              using answer = protocols::ownership_reclaim::answer;
              auto& r = books_->requests[wish.request];
              if (const auto granted = r.reclaim(wish.from))
                return protocols::reclaim_answer{answer::granted, *granted};
              return protocols::reclaim_answer{r.moved_from(wish.from) ? answer::moved : answer::ended, {}};
            },
            [this](protocols::disown_request&) { ++books_->disowned; },
            [this](protocols::migration_report& report) { books_->reports.push_back(std::move(report)); }};
  }

private:
  std::shared_ptr<home_books> books_;
};

/// There, and decides nothing.
class idle_scheduler final : public runtime::actor<actors::scheduler_interface> {
public:
  using actor::actor;
  runtime::behavior_of<actors::scheduler_interface> make_behavior() override {
    return {[](protocols::load_report&) {}, [](actors::dispatch_query&) { return actors::dispatch_decision{}; },
            [](actors::topology&) {}, [](actors::status_query&) { return actors::scheduler_view{}; },
            [](actors::scheduling_policies&) {}};
  }
};

class listening_keeper final : public runtime::actor<actors::pair_keeper_interface> {
public:
  listening_keeper(runtime::actor_context context, std::vector<protocols::instance_id>* drained)
      : actor(context), drained_(drained) {}
  runtime::behavior_of<actors::pair_keeper_interface> make_behavior() override {
    return {[](actors::instance_ready&) {}, [](actors::instance_failed&) {},
            [this](actors::instance_drained& news) { drained_->push_back(news.instance); }};
  }

private:
  std::vector<protocols::instance_id>* drained_;
};

class keeping_log final : public runtime::log::backend {
public:
  explicit keeping_log(std::vector<std::string>* lines) : lines_(lines) {}
  std::chrono::nanoseconds now() override { return {}; }
  void write(const runtime::log::record& r) override { lines_->emplace_back(r.message); }
  void flush() override {}
  std::uint64_t dropped() const override { return 0; }

private:
  std::vector<std::string>* lines_;
};

} // namespace

llumlet_world::llumlet_world(options wish)
    : world(wish.seed), network(std::make_unique<transport::sim::network>(world.timers(), wish.link)),
      system(std::make_unique<runtime::sim::system>(world)) {
  home_ = system->spawn<granting_home>(books);
  scheduler_ = system->spawn<idle_scheduler>();
  keeper_ = system->spawn<listening_keeper>(&drained);
  gpu::executor_info info;
  info.device = "sim";
  info.layers = 2;
  info.vocabulary = 1000;
  info.positions_max = 1024;
  info.blocks = wish.blocks;
  for (std::uint32_t i = 0; i < wish.instances; ++i) {
    actors::instance_options device;
    device.id = protocols::instance_id{i};
    device.make_executor = [this, info, latency = wish.latency](protocols::instance_id,
                                                                std::function<void(actors::executor_outcome)> done) {
      done({gpu::sim::make_sim_executor(info, latency, world.timers()), {}});
    };
    instances.emplace_back(system->spawn<actors::instance>(std::move(device)));
    actors::llumlet_options o;
    o.id = protocols::instance_id{i};
    o.instance = instances.back();
    o.node = keeper_;
    o.planner.step_tokens_max = 64;
    o.planner.running_max = wish.running_max;
    o.planner.waiting_max = 16;
    o.migration.fabric = network->make_fabric("process-" + std::to_string(i));
    fabrics_.push_back(o.migration.fabric);
    o.log = runtime::log::logger(std::make_shared<keeping_log>(&log),
                                 runtime::log::level_filter(runtime::log::level::info));
    if (wish.adjust) wish.adjust(o);
    llumlets.emplace_back(system->spawn<actors::llumlet>(std::move(o)));
  }
  for (std::uint32_t i = 0; i < wish.instances; ++i)
    EXPECT_TRUE(run_until([&] { return status(i).load.ready; })) << "instance " << i;
  announce(true);
}

llumlet_world::~llumlet_world() {
  EXPECT_TRUE(run_until([&] { return books->all_finished(); })) << "a request was lost";
  world.run_for(100ms); // the last steps' ends
  EXPECT_EQ(books->disowned, 0U);
  for (std::uint32_t i = 0; i < llumlets.size(); ++i) {
    const auto now = status(i);
    EXPECT_EQ(now.load.blocks_used, 0U) << "instance " << i;
    EXPECT_TRUE(now.requests.empty());
    EXPECT_TRUE(now.migrations.empty());
  }
  EXPECT_TRUE(system->shutdown());
}

bool llumlet_world::admit(std::uint32_t instance, std::uint64_t id, std::uint32_t prompt, std::uint32_t answer,
                          std::int32_t priority, std::uint8_t level) {
  protocols::generate_request r;
  r.request = protocols::request_id{id};
  auto& ownership = books->requests[r.request];
  r.epoch = *ownership.dispatch(protocols::instance_id{instance});
  for (std::uint32_t i = 0; i < prompt; ++i)
    r.prompt.push_back(static_cast<protocols::token_id>((id * 7919 + i * 31) % 1000));
  r.stop.max_tokens = answer;
  r.priority = priority;
  r.execution_level = level;
  const auto answered = system->ask(llumlets[instance], 1s, actors::generate_order{std::move(r), home_});
  const bool taken = answered && answered->accepted();
  if (!taken) books->requests.erase(protocols::request_id{id});
  return taken;
}

protocols::instance_status llumlet_world::status(std::uint32_t instance) {
  auto answer = system->ask(llumlets[instance], 1s, actors::status_query{true});
  EXPECT_TRUE(answer);
  return answer ? *answer : protocols::instance_status{};
}

std::vector<std::uint64_t> llumlet_world::with_state(std::uint32_t instance, protocols::request_state state) {
  std::vector<std::uint64_t> ids;
  for (const auto& r : status(instance).requests)
    if (r.state == state) ids.push_back(r.request.value());
  std::ranges::sort(ids);
  return ids;
}

void llumlet_world::mark(std::uint32_t from, std::uint32_t to, std::chrono::nanoseconds lease) {
  mark(from, to, lease, status(to).load);
}

void llumlet_world::mark(std::uint32_t from, std::uint32_t to, std::chrono::nanoseconds lease,
                         const protocols::load_report& known) {
  actors::migration_mark order;
  order.round = ++round_;
  order.why = protocols::mark_cause(status(from).load, known);
  order.destinations.emplace_back(protocols::instance_id{to}, llumlets[to], known);
  order.lease_ns = lease.count();
  system->tell(llumlets[from], std::move(order));
}

void llumlet_world::mark(std::uint32_t from, const std::vector<std::uint32_t>& to, std::chrono::nanoseconds lease) {
  actors::migration_mark order;
  order.round = ++round_;
  order.lease_ns = lease.count();
  const auto source = status(from).load;
  for (const auto id : to) {
    const auto known = status(id).load;
    order.why = protocols::mark_cause(source, known);
    order.destinations.emplace_back(protocols::instance_id{id}, llumlets[id], known);
  }
  system->tell(llumlets[from], std::move(order));
}

void llumlet_world::unmark(std::uint32_t from) { system->tell(llumlets[from], actors::migration_mark{}); }

void llumlet_world::mark_rounds(std::uint32_t from, std::uint32_t to, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    mark(from, to);
    world.run_for(200ms);
  }
}

void llumlet_world::drain(std::uint32_t instance, bool drains) {
  system->tell(llumlets[instance], actors::drain_order{drains});
}

void llumlet_world::announce(bool with_scheduler, std::uint32_t without) {
  actors::topology news;
  news.version = ++version_;
  if (with_scheduler) news.scheduler = scheduler_;
  for (std::uint32_t i = 0; i < llumlets.size(); ++i)
    if (i != without) news.instances.edit().emplace_back(protocols::instance_id{i}, 1, true, llumlets[i]);
  for (const auto& llumlet : llumlets) system->tell(llumlet, news);
}

void llumlet_world::move(std::uint64_t id, std::uint32_t from, std::uint32_t to) {
  const auto under = books->requests.at(protocols::request_id{id}).current_epoch();
  system->tell(llumlets[from],
               actors::migrate_order{protocols::request_id{id}, under, protocols::instance_id{to}, llumlets[to]});
}

bool llumlet_world::run_until(const std::function<bool()>& condition) { return world.run_until(condition, 20'000'000); }

} // namespace godwit::test
