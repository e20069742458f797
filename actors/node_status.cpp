#include <godwit/actors/node.hpp>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

namespace {
// Each is asked at the same time; one that does not answer delays the status by this much, not by its share.
constexpr std::chrono::seconds status_timeout{2};
/// Each keeps as much as there are instances and requests.
constexpr unsigned statuses_max = 64;
} // namespace

struct node::status_round {
  protocols::cluster_status out;
  std::vector<request_name> names;
  std::size_t waiting = 0;
  std::unique_ptr<runtime::completer<bool>> complete;
  void put_names(const std::vector<std::string>& levels) {
    known_names found;
    for (auto& name : names) found.emplace(name.request, &name.client_id);
    for (auto& instance : out.instances)
      for (auto& request : instance.requests) name(request, found, levels);
  }
  using known_names = std::unordered_map<protocols::request_id, std::string*>;
  static void name(protocols::request_status& request, const known_names& found,
                   const std::vector<std::string>& levels) {
    if (const auto client = found.find(request.request); client != found.end()) request.client_id = *client->second;
    const std::size_t level = request.execution_level;
    if (level < levels.size())
      request.execution_priority = levels[level];
    else if (level == 0)
      request.execution_priority = "normal"; // what the front end calls it where none has a name
  }
  void one_less() {
    if (--waiting == 0 && complete) (*complete)(true);
  }
};

task<runtime::async::expected<protocols::cluster_status>> node::status(bool with_requests) {
  if (statuses_ == statuses_max)
    co_return runtime::async::error{runtime::async::error_code::refused, "too many ask for the status at once"};
  const struct claim {
    unsigned& held;
    explicit claim(unsigned& statuses) : held(statuses) { ++held; }
    ~claim() { --held; }
  } counted(statuses_);
  auto round = std::make_shared<status_round>();
  auto& out = round->out;
  out.version = options_.version;
  out.model = options_.model;
  auto& scheduling = out.scheduling; // what the scheduler says replaces this
  const auto& policies = options_.scheduler.policies;
  scheduling.dispatch_policy = policies.dispatch;
  scheduling.migration_policy = to_string(policies.migration);
  scheduling.migration_paused = policies.migration_paused;
  scheduling.scaling = to_string(policies.scaling);
  scheduling.roles = to_string(policies.roles);
  scheduling.scaling_last = scaling_last_;
  out.uptime_ns = now().count();
  std::vector<runtime::handle<llumlet_interface>> whom; // the books may change while we wait
  for (const auto& m : members_) {
    if (!m.member) continue;
    if (m.store) out.stores.emplace_back(m.address, m.store_report);
    for (std::uint32_t i = 0; i < m.instances; ++i) {
      protocols::instance_status entry;
      entry.instance = protocols::instance_id{m.first.value() + i};
      entry.node = m.address;
      entry.load.role = m.pairs[i].role;
      if (m.pairs[i].stopped) {
        entry.state = protocols::instance_state::stopped;
        out.stopped.push_back(std::move(entry));
        continue;
      }
      entry.state = protocols::instance_state::down;
      const auto generation = m.pairs[i].generation;
      entry.restarts = generation == 0 ? 0 : static_cast<std::uint32_t>(generation - 1);
      entry.last_error = m.pairs[i].error;
      out.instances.push_back(std::move(entry));
      whom.push_back(m.pairs[i].llumlet);
    }
  }
  auto fronts = homes();
  for (const auto& home : fronts) out.frontends.emplace_back(home.node, home.home);
  round->waiting = whom.size() + fronts.size() + 1;
  for (std::size_t i = 0; i < fronts.size(); ++i) start(ask_frontend(std::move(fronts[i]), with_requests, round, i));
  start(ask_scheduler(round));
  for (std::size_t i = 0; i < whom.size(); ++i) start(ask_instance(whom[i], with_requests, round, i));
  const auto all = [&round](runtime::completer<bool> done) {
    if (round->waiting == 0) return done(true);
    round->complete = std::make_unique<runtime::completer<bool>>(std::move(done));
  };
  co_await callback<bool>(status_timeout * 2, all);
  round->complete.reset();
  round->put_names(options_.frontend.execution_levels);
  scheduling.roles_last = roles_last_;
  scheduling.provisioning = provisioning_.orders();
  if (const auto oldest = provisioning_.oldest_order()) scheduling.provisioning_ns = now().count() - *oldest;
  if (const auto& why = provisioning_.failure(); !why.empty()) scheduling.scaling_last += "; " + why;
  scheduling.scaled_out_total = provisioning_.scaled_out_total();
  scheduling.scaled_in_total = provisioning_.scaled_in_total();
  co_return std::move(round->out);
}

task<void> node::ask_frontend(known_home whom, bool with_requests, std::shared_ptr<status_round> round,
                              std::size_t index) {
  if (whom.frontend) {
    auto counts = co_await ask(whom.frontend, status_timeout, status_query{with_requests});
    if (counts) {
      auto& all = round->out;
      auto& one = all.frontends[index];
      one.answers = true;
      all.requests_open += one.requests_open = counts->open;
      all.requests_finished_total += one.requests_finished_total = counts->finished_total;
      all.requests_failed_total += one.requests_failed_total = counts->failed_total;
      all.redispatches_total += counts->redispatches_total;
      all.moves_total += counts->moves_total;
      std::ranges::move(counts->names, std::back_inserter(round->names));
    }
  }
  round->one_less();
}

task<void> node::ask_scheduler(std::shared_ptr<status_round> round) {
  if (scheduler_) {
    auto view = co_await ask(scheduler_, status_timeout, status_query{});
    if (view) {
      auto& out = round->out.scheduling;
      if (view->scheduling.scaling_last.empty()) view->scheduling.scaling_last = std::move(out.scaling_last);
      out = std::move(view->scheduling);
    }
  }
  round->one_less();
}

task<void> node::ask_instance(runtime::handle<llumlet_interface> whom, bool with_requests,
                              std::shared_ptr<status_round> round, std::size_t index) {
  if (whom) {
    auto answer = co_await ask(whom, status_timeout, status_query{with_requests});
    auto& entry = round->out.instances[index];
    // What befell its predecessors an instance that starts does not know.
    if (answer && answer->state == protocols::instance_state::starting)
      answer->last_error = std::move(entry.last_error);
    if (answer) entry = std::move(*answer);
  }
  round->one_less();
}

} // namespace godwit::actors
