#include <godwit/protocols/policy/dispatch.hpp>

#include <godwit/protocols/kv/block_hash.hpp>

#include <algorithm>
#include <tuple>

namespace godwit::protocols {

bool dispatcher::report(const load_report& report) {
  const auto [place, is_new] = candidates_.try_emplace(report.instance);
  auto& known = place->second;
  const auto age = [](const load_report& r) { return std::tie(r.generation, r.sequence); };
  if (!is_new && age(report) <= age(known.report)) return false;
  known.report = report;
  known.dispatched = 0;
  known.dispatched_tokens = 0;
  return true;
}

void dispatcher::remove(instance_id instance) { candidates_.erase(instance); }

std::optional<dispatch_choice> dispatcher::pick(const dispatch_demand& demand) {
  const auto picked = pick_among(demand, std::nullopt);
  if (!picked) return std::nullopt;
  dispatch_choice choice;
  choice.instance = *picked;
  choice.why.policy = name();
  return choice;
}

std::optional<instance_id> dispatcher::pick_other(const dispatch_demand& demand, instance_id avoided) {
  if (const auto other = pick_among(demand, avoided)) return other;
  return pick_among(demand, std::nullopt);
}

std::optional<instance_id> dispatcher::pick_among(const dispatch_demand& demand, std::optional<instance_id> avoided) {
  std::vector<const candidate*> eligible;
  for (const auto& [instance, known] : candidates_) {
    const auto& r = known.report;
    // What was picked since the report fills the free places of the batch before those of the queue.
    const auto free = r.running_max > r.running ? r.running_max - r.running : 0U;
    const bool queue_full = r.waiting_max > 0 && r.waiting + known.dispatched >= std::uint64_t{r.waiting_max} + free;
    if (r.ready && !queue_full && instance != avoided) eligible.push_back(&known);
  }
  if (eligible.empty()) return std::nullopt;
  const auto chosen = choose(eligible, demand);
  auto& target = candidates_.at(chosen);
  ++target.dispatched;
  target.dispatched_tokens += demand.tokens;
  target.picked_last = ++picks_;
  return chosen;
}

std::vector<load_report> dispatcher::reports() const {
  std::vector<load_report> list;
  list.reserve(candidates_.size());
  for (const auto& [instance, known] : candidates_) list.push_back(known.report);
  return list;
}

namespace {

class least_load final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "least_load"; }

private:
  [[nodiscard]] instance_id choose(const std::vector<const candidate*>& eligible, const dispatch_demand&) override {
    const auto load = [](const candidate* c) {
      const auto& r = c->report;
      const auto blocks = std::uint64_t{r.blocks_used} + blocks_for(r.waiting_tokens + c->dispatched_tokens);
      const auto share = r.blocks_total == 0 ? 0.0 : static_cast<double>(blocks) / r.blocks_total;
      return std::tuple{share, std::uint64_t{r.waiting} + r.running + c->dispatched, c->picked_last};
    };
    return (*std::ranges::min_element(eligible, {}, load))->report.instance;
  }
};

class round_robin final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "round_robin"; }

private:
  [[nodiscard]] instance_id choose(const std::vector<const candidate*>& eligible, const dispatch_demand&) override {
    const auto turn = [](const candidate* c) { return c->picked_last; };
    return (*std::ranges::min_element(eligible, {}, turn))->report.instance;
  }
};

} // namespace

std::unique_ptr<dispatcher> make_dispatcher(std::string_view name) {
  if (name == "least_load") return std::make_unique<least_load>();
  if (name == "round_robin") return std::make_unique<round_robin>();
  return nullptr;
}

std::vector<std::string_view> dispatcher_names() { return {"least_load", "round_robin"}; }

} // namespace godwit::protocols
