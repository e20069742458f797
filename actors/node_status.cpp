#include <godwit/actors/node.hpp>

#include <unordered_map>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

namespace {
// Each is asked at the same time; one that does not answer delays the status by this much, not by its share.
constexpr std::chrono::seconds status_timeout{2};
} // namespace

struct node::status_round {
  protocols::cluster_status out;
  std::vector<request_name> names;
  std::size_t waiting = 0;
  std::unique_ptr<runtime::completer<bool>> complete;
  void put_names() {
    std::unordered_map<protocols::request_id, std::string*> found;
    for (auto& name : names) found.emplace(name.request, &name.client_id);
    for (auto& instance : out.instances)
      for (auto& request : instance.requests)
        if (const auto name = found.find(request.request); name != found.end()) request.client_id = *name->second;
  }
  void one_less() {
    if (--waiting == 0 && complete) (*complete)(true);
  }
};

task<protocols::cluster_status> node::status(bool with_requests) {
  auto round = std::make_shared<status_round>();
  auto& out = round->out;
  out.version = options_.version;
  out.model = options_.model;
  out.scheduling.dispatch_policy = options_.scheduler.policies.dispatch;
  out.uptime_ns = now().count();
  std::vector<runtime::handle<llumlet_interface>> whom; // the books may change while we wait
  for (const auto& m : members_) {
    if (!m.member) continue;
    for (std::uint32_t i = 0; i < m.instances; ++i) {
      protocols::instance_status entry;
      entry.instance = protocols::instance_id{m.first.value() + i};
      entry.node = m.address;
      entry.state = protocols::instance_state::down;
      const auto generation = m.pairs[i].generation;
      entry.restarts = generation == 0 ? 0 : static_cast<std::uint32_t>(generation - 1);
      out.instances.push_back(std::move(entry));
      whom.push_back(m.pairs[i].llumlet);
    }
  }
  round->waiting = whom.size() + 1;
  start(ask_frontend(with_requests, round));
  for (std::size_t i = 0; i < whom.size(); ++i) start(ask_instance(whom[i], with_requests, round, i));
  const auto all = [&round](runtime::completer<bool> done) {
    if (round->waiting == 0) return done(true);
    round->complete = std::make_unique<runtime::completer<bool>>(std::move(done));
  };
  co_await callback<bool>(status_timeout * 2, all);
  round->complete.reset();
  round->put_names();
  co_return std::move(round->out);
}

task<void> node::ask_frontend(bool with_requests, std::shared_ptr<status_round> round) {
  if (frontend_) {
    auto counts = co_await ask(frontend_, status_timeout, status_query{with_requests});
    if (counts) {
      round->out.requests_open = counts->open;
      round->out.requests_finished_total = counts->finished_total;
      round->out.requests_failed_total = counts->failed_total;
      round->out.redispatches_total = counts->redispatches_total;
      round->out.moves_total = counts->moves_total;
      round->names = std::move(counts->names);
    }
  }
  round->one_less();
}

task<void> node::ask_instance(runtime::handle<llumlet_interface> whom, bool with_requests,
                              std::shared_ptr<status_round> round, std::size_t index) {
  if (whom) {
    auto answer = co_await ask(whom, status_timeout, status_query{with_requests});
    if (answer) round->out.instances[index] = std::move(*answer);
  }
  round->one_less();
}

} // namespace godwit::actors
