#include <godwit/protocols/policy/dispatch.hpp>

#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

namespace {

using wide = std::int64_t;

class by_freeness final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "freeness"; }

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept override {
    const auto blocks = static_cast<wide>(picked.blocks);
    const auto requests = picked.requests + r.waiting; // that the next step starts
    // Those that wait take the places first. A batch without a known bound has place for all.
    const bool starts = r.running_max == 0 || requests < places_in_batch(r);
    const auto head = wide{r.queued_blocks} - r.outstanding_blocks; // its demand, or all that is free
    const auto behind_head = std::max<wide>(r.waiting_blocks - head, 0);
    if (starts) return finite(freeness(r, blocks + behind_head + picked.headroom, static_cast<wide>(requests)));
    const auto without_queue = freeness(r, picked.headroom - head, 0);
    return finite(std::min(without_queue, 0.0) - static_cast<double>(blocks + r.waiting_blocks));
  }
  [[nodiscard]] bool counts_headroom() const noexcept override { return true; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
};

std::uint64_t blocks_wanted(const load_report& r, std::uint64_t picked) noexcept {
  return std::uint64_t{r.blocks_used} + r.outstanding_blocks + r.waiting_blocks + picked;
}

class by_memory final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "infaas"; }

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept override {
    return -static_cast<double>(blocks_wanted(r, picked.blocks)) / std::max(r.blocks_total, 1U);
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
  [[nodiscard]] bool looks_at_prefixes() const noexcept override { return false; }
  [[nodiscard]] finding find(const std::vector<place>& places, const dispatch_demand&) override {
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
  [[nodiscard]] bool looks_at_prefixes() const noexcept override { return false; }
  [[nodiscard]] double rate(const load_report&, const picked_load&) const noexcept override { return 0; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
};

class by_cache final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cache_aware"; }

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept override {
    return -static_cast<double>(blocks_wanted(r, picked.blocks));
  }
  [[nodiscard]] double score(double rating) const noexcept override { return 0.0 - rating; }
  [[nodiscard]] finding find(const std::vector<place>& places, const dispatch_demand& demand) override {
    weighed_ = places;
    for (auto& candidate : weighed_) candidate.rating -= demand.tokens;
    for (const auto& known : known_prefixes()) weighed_[known.place].rating += known.tokens;
    auto found = dispatcher::find(weighed_, demand);
    if (found.best != finding::none) found.rating = weighed_[found.best].rating;
    return found;
  }
  std::vector<place> weighed_; ///< kept for its memory
};

class by_ttft final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "ttft"; }

private:
  /// All of it is about one request.
  [[nodiscard]] double rate(const load_report&, const picked_load&) const noexcept override { return 0; }
  [[nodiscard]] double score(double rating) const noexcept override { return 0.0 - rating / 1e6; }
  [[nodiscard]] finding find(const std::vector<place>& places, const dispatch_demand& demand) override {
    const auto& expected = expected_ttfts(places, demand, standing::last);
    weighed_ = places;
    for (std::size_t i = 0; i < weighed_.size(); ++i)
      if (eligible(places[i])) weighed_[i].rating = -expected[i];
    auto found = dispatcher::find(weighed_, demand);
    if (found.best != finding::none) found.rating = weighed_[found.best].rating;
    return found;
  }
  std::vector<place> weighed_; ///< kept for its memory
};

} // namespace

std::unique_ptr<dispatcher> make_dispatcher(std::string_view name, std::uint64_t seed) {
  if (name == "freeness") return std::make_unique<by_freeness>();
  if (name == "infaas") return std::make_unique<by_memory>();
  if (name == "least_requests") return std::make_unique<by_requests>();
  if (name == "power_of_two") return std::make_unique<of_two>(seed);
  if (name == "round_robin") return std::make_unique<in_turn>();
  if (name == "cache_aware") return std::make_unique<by_cache>();
  if (name == "ttft") return std::make_unique<by_ttft>();
  return nullptr;
}

std::vector<std::string_view> dispatcher_names() {
  return {"freeness", "infaas", "least_requests", "power_of_two", "round_robin", "cache_aware", "ttft"};
}

} // namespace godwit::protocols
