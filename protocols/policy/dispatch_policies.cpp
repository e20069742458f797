#include <godwit/protocols/policy/dispatch.hpp>

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

namespace {

class by_freeness final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "freeness"; }

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept override {
    const auto blocks = static_cast<std::int64_t>(picked.blocks + behind_head(r));
    // Those that wait take the places first. A batch without a known bound has place for all.
    const bool starts = r.running_max == 0 || picked.requests + r.waiting < places_in_batch(r);
    const auto more = static_cast<std::int64_t>(picked.requests + r.waiting); // that the next step starts
    if (starts) return finite(freeness(r, blocks + picked.headroom, more));
    return finite(std::min(freeness(r, picked.headroom, 0), 0.0) - static_cast<double>(blocks));
  }
  [[nodiscard]] bool counts_headroom() const noexcept override { return true; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }

  /// Blocks of those that wait behind the head of line, which is counted already: about their part of the tokens that
  /// wait. What running prompts still lack is among these, and so counts twice where somebody waits; the report does not
  /// tell it apart (`queued_blocks` has more than the head's demand where the batch is full).
  [[nodiscard]] static std::uint64_t behind_head(const load_report& r) noexcept {
    return r.waiting < 2 ? 0 : std::uint64_t{blocks_for(r.waiting_tokens)} * (r.waiting - 1) / r.waiting;
  }
};

class by_memory final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "infaas"; }

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept override {
    const auto blocks = std::uint64_t{r.blocks_used} + blocks_for(r.waiting_tokens) + picked.blocks;
    return -static_cast<double>(blocks) / std::max(r.blocks_total, 1U);
  }
  [[nodiscard]] double score(double rating) const noexcept override { return 0.0 - rating; }
};

class by_requests : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "least_requests"; }

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept final {
    return -static_cast<double>(std::uint64_t{r.waiting} + r.running + picked.requests);
  }
  [[nodiscard]] double score(double rating) const noexcept final { return 0.0 - rating; } // and no -0
};

class of_two final : public by_requests {
public:
  explicit of_two(std::uint64_t seed) noexcept : random_(seed) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "power_of_two"; }

private:
  [[nodiscard]] finding find(const std::vector<place>& places) override {
    finding found;
    for (const auto& p : places) found.candidates += eligible(p) ? 1 : 0;
    if (found.candidates == 0) return found;
    // Two different ones by their numbers among the candidates, the smaller number first.
    auto first = random_.below(found.candidates);
    auto second = found.candidates == 1 ? first : random_.below(found.candidates - 1U);
    if (found.candidates > 1 && second >= first) ++second;
    if (second < first) std::swap(first, second);
    std::size_t drawn[2] = {};
    std::uint64_t number = 0;
    for (std::size_t i = 0; number <= second; ++i) {
      if (!eligible(places[i])) continue;
      if (number == first) drawn[0] = i;
      if (number == second) drawn[1] = i;
      ++number;
    }
    const bool second_better = better(places[drawn[1]], places[drawn[0]]);
    found.best = drawn[second_better ? 1 : 0];
    found.runner_up = places[drawn[second_better ? 0 : 1]].rating;
    return found;
  }

  workload::counter_random random_;
};

class in_turn final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "round_robin"; }

private:
  [[nodiscard]] double rate(const load_report&, const picked_load&) const noexcept override { return 0; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
};

} // namespace

std::unique_ptr<dispatcher> make_dispatcher(std::string_view name, std::uint64_t seed) {
  if (name == "freeness") return std::make_unique<by_freeness>();
  if (name == "infaas") return std::make_unique<by_memory>();
  if (name == "least_requests") return std::make_unique<by_requests>();
  if (name == "power_of_two") return std::make_unique<of_two>(seed);
  if (name == "round_robin") return std::make_unique<in_turn>();
  return nullptr;
}

std::vector<std::string_view> dispatcher_names() {
  return {"freeness", "infaas", "least_requests", "power_of_two", "round_robin"};
}

} // namespace godwit::protocols
