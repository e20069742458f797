#include <godwit/actors/node.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

// The head's books about the processes that bring instances.
namespace godwit::actors {

namespace {

/// Processes whose ids are kept for their return. A forgotten one gets fresh ids, which does no harm.
constexpr std::size_t remembered_max = 4096;

/// Of a member that was told to end, and says so.
constexpr std::string_view leaves = "it leaves";

std::string in_words(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::string what_it_brings(std::uint32_t instances, protocols::instance_id first, bool frontend) {
  if (instances == 0) return "a front end";
  return std::to_string(instances) + " instances from id " + std::to_string(first.value()) +
         (frontend ? " and a front end" : "");
}

template <class Act> void each(protocols::store_report& sum, protocols::store_report with, Act act) {
  std::apply([&](auto&... to) { std::apply([&](auto&... from) { (act(to, from), ...); }, with.fields()); },
             sum.fields());
}
void add(protocols::store_report& sum, const protocols::store_report& more) {
  each(sum, more, [](auto& to, auto from) { to += from; });
}

/// Whether the second one may be of the same shard, later. One that was restarted counts from 0.
bool counts_on(const protocols::store_report& past, const protocols::store_report& now) {
  return now.looked_up_total >= past.looked_up_total && now.filed_total >= past.filed_total &&
         now.loaded_total >= past.loaded_total && now.evicted_total >= past.evicted_total;
}

} // namespace

struct cluster_metrics::stores_told {
  using samples = runtime::metrics::registry::samples;
  std::mutex mutex;
  std::vector<protocols::store_status> all;
  protocols::store_report gone;
  std::vector<runtime::metrics::registry::registration> registrations;

  void show(runtime::metrics::registry& registry, bool counts, const char* name, const char* help,
            std::uint64_t protocols::store_report::*what) {
    auto read = [this, what] {
      std::map<std::string, double> by_node; // names may be given twice, which is warned of; series may not
      {
        const std::lock_guard lock(mutex);
        for (const auto& one : all) by_node[one.node] += static_cast<double>(one.report.*what);
      }
      samples out;
      for (const auto& [node, value] : by_node) out.push_back({{{"node", node}}, value});
      return out;
    };
    registrations.push_back(counts ? registry.add_callback_counters(name, help, std::move(read))
                                   : registry.add_callback_gauges(name, help, std::move(read)));
  }
};

cluster_metrics::cluster_metrics(runtime::metrics::registry& registry)
    : members(registry.add_gauge("godwit_members", "Processes that have joined this one.")),
      members_lost(
          registry.add_counter("godwit_members_lost_total",
                               "Processes that had joined and were lost, without having said that they leave.")),
      orders_given_up(registry.add_counter("godwit_scaling_failures_total",
                                           "Instances that were ordered and given up: they failed, did not come in "
                                           "time, or were not wanted any more.")),
      role_changes(registry.add_counter_family("godwit_role_changes_total",
                                               "Instances that were given another role, by that role.", {"role"})),
      stores_(std::make_shared<stores_told>()) {
  for (const auto& [role, name] : protocols::instance_roles) (void)role_changes.with({std::string(name)});
  using report = protocols::store_report;
  auto& s = *stores_;
  s.show(registry, false, "godwit_kv_store_bytes", "Memory that the node's shard of the KV store may take.",
         &report::bytes);
  s.show(registry, false, "godwit_kv_store_used_bytes", "Of that, what has KV in it.", &report::bytes_used);
  s.show(registry, true, "godwit_kv_store_looked_up_chunks_total", "Chunks of 64 tokens that the shard was asked for.",
         &report::looked_up_total);
  s.show(registry, true, "godwit_kv_store_found_chunks_total", "Of these, those it had.", &report::found_total);
  s.show(registry, true, "godwit_kv_store_loaded_chunks_total", "Chunks that instances got from the shard.",
         &report::loaded_total);
  s.show(registry, true, "godwit_kv_store_filed_chunks_total", "Chunks that instances brought to the shard.",
         &report::filed_total);
  s.show(registry, true, "godwit_kv_store_evicted_chunks_total",
         "Chunks in the shard's memory that made room for others.", &report::evicted_total);
  s.show(registry, true, "godwit_kv_store_failed_transfers_total", "Transfers from or to the shard that failed.",
         &report::failed_total);
  s.show(registry, false, "godwit_kv_store_disk_bytes", "Of a disk, below the memory of the node's shard.",
         &report::disk_bytes);
  s.show(registry, false, "godwit_kv_store_disk_used_bytes", "Of that, what has KV in it.", &report::disk_bytes_used);
  s.show(registry, true, "godwit_kv_store_disk_written_chunks_total", "Chunks that the shard copied to its disk.",
         &report::disk_written_total);
  s.show(registry, true, "godwit_kv_store_disk_read_chunks_total", "Chunks that it read into its memory again.",
         &report::disk_read_total);
  s.show(registry, true, "godwit_kv_store_disk_evicted_chunks_total", "Chunks on its disk that made room for others.",
         &report::disk_evicted_total);
  s.show(registry, true, "godwit_kv_store_disk_failures_total", "Reads and writes of its disk that failed.",
         &report::disk_failed_total);
}

void cluster_metrics::adopt(std::vector<protocols::store_status> stores) {
  const std::lock_guard lock(stores_->mutex);
  stores_->all = std::move(stores);
}

protocols::store_report cluster_metrics::stores() const {
  const std::lock_guard lock(stores_->mutex);
  auto sum = stores_->gone;
  for (const auto& one : stores_->all) add(sum, one.report);
  return sum;
}

void cluster_metrics::forget(const protocols::store_report& last) {
  const std::lock_guard lock(stores_->mutex);
  auto& gone = stores_->gone;
  add(gone, last);
  gone.bytes = gone.bytes_used = gone.disk_bytes = gone.disk_bytes_used = 0;
}

void cluster_metrics::remember(const protocols::store_report& last) {
  const std::lock_guard lock(stores_->mutex);
  each(stores_->gone, last, [](auto& to, auto from) { to -= std::min(to, from); });
}

void node::leave(std::uint64_t key) { remove(key, leaves); }

node::member_record* node::find_member(std::uint64_t key) {
  const auto found = std::find_if(members_.begin(), members_.end(), [key](const auto& m) { return m.key == key; });
  return found == members_.end() ? nullptr : &*found;
}

std::string node::refuse(const join_cluster& wish) const {
  if (!wish.member) return "the member sent no handle of itself";
  if (wish.version != options_.version)
    return "the head is godwit " + options_.version + ", the member godwit " + wish.version;
  if (wish.key == own_key && wish.member != own_member_) return "the member has the key of the head's own";
  if ((wish.instances == 0 && wish.home == 0) || wish.instances > options_.member_instances_max)
    return "a member brings 1 to " + std::to_string(options_.member_instances_max) +
           " instances, or a front end; this one brings " + std::to_string(wish.instances);
  const auto& ours = options_.identity;
  auto theirs = wish.model;
  if (wish.instances == 0) { // a front end alone has no KV, and drafts nothing
    if (theirs.fingerprint == ours.fingerprint.substr(0, ours.fingerprint.find('+')))
      theirs.fingerprint = ours.fingerprint;
    theirs.kv_type = ours.kv_type;
    theirs.kv_block_bytes = ours.kv_block_bytes;
  }
  if (theirs.fingerprint != ours.fingerprint) {
    const bool drafts = (ours.fingerprint + theirs.fingerprint).find('+') != std::string::npos;
    return "the head serves another model ('" + options_.model + "', fingerprint " + ours.fingerprint +
           "; the member's is " + theirs.fingerprint + (drafts ? "; what follows + is the draft model's)" : ")");
  }
  if (theirs.kv_type != ours.kv_type || theirs.kv_block_bytes != ours.kv_block_bytes)
    return "the head's KV cache is " + ours.kv_type + " with " + std::to_string(ours.kv_block_bytes) +
           " bytes a block, the member's " + theirs.kv_type + " with " + std::to_string(theirs.kv_block_bytes);
  if (theirs.context_length != ours.context_length)
    return "the head serves a context of " + std::to_string(ours.context_length) + " tokens, the member " +
           std::to_string(theirs.context_length) + "; give both the same --model-context-max";
  std::size_t present = 0, instances = 0, fronts = 0;
  for (const auto& m : members_) {
    if (!m.member || m.key == wish.key) continue;
    ++present;
    instances += m.instances;
    if (m.home != 0) ++fronts;
  }
  if (present >= options_.members_max)
    return "the cluster has " + std::to_string(options_.members_max) + " members and takes no more";
  if (instances + wish.instances > options_.instances_max)
    return "the cluster has " + std::to_string(instances) + " instances and takes no more than " +
           std::to_string(options_.instances_max) + ", this member brings " + std::to_string(wish.instances);
  if (wish.home != 0 && wish.execution_levels != options_.frontend.execution_levels)
    return "the head has the execution priorities " + in_words(options_.frontend.execution_levels) +
           ", the front end " + in_words(wish.execution_levels) + "; give both the same priorities.execution";
  if (wish.home != 0 && fronts >= options_.frontends_max)
    return "the cluster has " + std::to_string(options_.frontends_max) +
           " front ends beside the head's and takes no more";
  return {};
}

// Processes draw theirs, so that it stays the same when another head comes, whichever of them finds that first. As good
// as never do two draw the same.
std::uint16_t node::home_for(const join_cluster& wish) const {
  const auto taken = [&](std::uint16_t home) {
    return home == 0 || home == options_.frontend.home || home == protocols::nobodys_home ||
           std::ranges::any_of(members_,
                               [&](const auto& m) { return m.member && m.key != wish.key && m.home == home; });
  };
  auto out = wish.home;
  while (wish.home != 0 && taken(out)) ++out;
  return out;
}

// Same process, same ids. Ids are never given to another process, so an id with a generation says for ever what it is
// about.
node::member_record* node::remember(const join_cluster& wish) {
  if (auto* known = find_member(wish.key)) {
    if (known->instances == wish.instances) return known;
    members_.erase(members_.begin() + (known - members_.data())); // not the process that it was
  }
  if (members_.size() >= remembered_max) {
    const auto gone = std::find_if(members_.begin(), members_.end(), [](const auto& m) { return !m.member; });
    if (gone != members_.end()) members_.erase(gone);
  }
  member_record fresh;
  fresh.key = wish.key;
  fresh.instances = wish.instances;
  if (wish.key != own_key) { // the head's own instances are 0, 1, ...
    fresh.first = protocols::instance_id{next_instance_};
    next_instance_ += wish.instances;
  }
  const auto at = std::find_if(members_.begin(), members_.end(),
                               [&](const auto& m) { return m.first.value() > fresh.first.value(); });
  return &*members_.insert(at, std::move(fresh));
}

join_answer node::admit(const join_cluster& wish) {
  if (auto why_not = refuse(wish); !why_not.empty()) {
    options_.log.warning("refused a member at {}: {}", wish.address, why_not);
    return join_answer{std::move(why_not)};
  }
  // Its earlier self may still be on the books: a connection can be lost on one side first.
  if (const auto* before = find_member(wish.key); before != nullptr && before->member)
    remove(wish.key, "it joins anew");
  auto& m = *remember(wish);
  m.member = wish.member;
  m.address = wish.address;
  m.news = 0;
  m.pairs.assign(m.instances, {});
  m.store = {};
  m.home = home_for(wish);
  m.frontend = {};
  for (auto& p : m.pairs) p.generation = m.generation_max;
  m.watch = monitor(m.member, [this, key = wish.key, who = wish.member](runtime::stop_reason why) {
    if (const auto* record = find_member(key); record != nullptr && record->member == who) remove(key, to_string(why));
  });
  // Those of this process have its name.
  const auto same_name = [&](const auto& other) {
    return other.member && other.key != wish.key && other.address == m.address &&
           (is_elsewhere(other.key) || is_elsewhere(wish.key));
  };
  if (std::ranges::any_of(members_, same_name))
    options_.log.warning(
        "another member is called {} too, or its earlier self is not missed yet; give each its own --name", m.address);
  if (wish.key != own_key)
    options_.log.info("member {} joined with {}", m.address, what_it_brings(m.instances, m.first, m.home != 0));
  auto answer = join_answer{m.first, m.generation_max};
  answer.home = m.home;
  answer.clock_ns = now().count();
  using place = protocols::provisioning::place;
  const auto where = m.key == own_key                   ? place::own
                     : further_members_.contains(m.key) ? place::further
                                                        : place::elsewhere;
  if (m.instances == 0 || // nothing that could be started or drained
      !decide(protocols::provisioning::process_joined{m.key, m.address, where, m.first, m.instances}).told)
    announce();
  return answer;
}

void node::take_news(member_news& news) {
  auto* m = find_member(news.key);
  if (m == nullptr || !m->member || news.number <= m->news) return; // from before it was removed
  if (news.pairs.size() != m->instances) {
    options_.log.warning("member {} speaks of {} instances but joined with {}", m->address, news.pairs.size(),
                         m->instances);
    return;
  }
  m->news = news.number;
  m->pairs = std::move(news.pairs);
  m->frontend = std::move(news.frontend);
  if (m->store != news.store) {
    forget_store(*m);
    m->store = std::move(news.store);
    tell_stores();
  }
  protocols::provisioning::process_news said{m->key, {}};
  for (const auto& p : m->pairs) {
    m->generation_max = std::max(m->generation_max, p.generation);
    said.instances.push_back({p.generation, p.ready && p.llumlet, p.draining, p.stopped, p.order});
  }
  if (m->instances == 0 || !decide(said).told) announce();
}

void node::take_news(const store_news& news) {
  auto* m = find_member(news.key);
  if (m == nullptr || !m->store) return;
  if (const auto past = std::exchange(m->past_report, {}); past && options_.metrics && counts_on(*past, news.report))
    options_.metrics->remember(*past);
  m->store_report = news.report;
  tell_stores();
}

void node::forget_store(member_record& m) const {
  if (m.store && options_.metrics) options_.metrics->forget(m.store_report);
  m.store_report = {};
  m.store = {};
}

void node::tell_stores() const {
  if (!options_.metrics) return;
  std::vector<protocols::store_status> all;
  for (const auto& m : members_)
    if (m.store) all.emplace_back(m.address, m.store_report);
  options_.metrics->adopt(std::move(all));
}

void node::remove(std::uint64_t key, std::string_view why) {
  auto* m = find_member(key);
  if (m == nullptr || !m->member) return;
  if (options_.metrics && why != leaves && is_elsewhere(key)) options_.metrics->members_lost.increment();
  demonitor(m->watch);
  m->member = {};
  m->pairs.clear();
  m->frontend = {};
  if (m->store) m->past_report = m->store_report;
  forget_store(*m);
  tell_stores();
  if (m->instances == 0 || !decide(protocols::provisioning::process_left{key}).told) announce();
  // After all that has to be done, since a line may fail.
  if (m = find_member(key); m != nullptr && key != own_key)
    options_.log.write(why == leaves ? runtime::log::level::info : runtime::log::level::warning,
                       "member {} with {} is gone ({})", m->address,
                       what_it_brings(m->instances, m->first, m->home != 0), why);
}

bool node::is_elsewhere(std::uint64_t key) const { return key != own_key && !further_members_.contains(key); }

void node::kill(protocols::instance_id id) {
  if (const auto* m = keeper_of(id)) tell(m->member, kill_instance{id});
}

node::member_record* node::keeper_of(protocols::instance_id id) {
  for (auto& m : members_)
    if (m.member && id >= m.first && id.value() - m.first.value() < m.instances) return &m;
  return nullptr;
}

} // namespace godwit::actors
