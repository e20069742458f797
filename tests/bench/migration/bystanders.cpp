#include "migration/bystanders.hpp"

#include "migration/stream.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace godwit::bench {

namespace {

using protocols::instance_id;

constexpr std::uint32_t mover_tokens = 1024, bystander_tokens = 256;
constexpr std::uint32_t bystanders_each = 2; ///< on each instance
/// Machines that others use get faster and slower within seconds: what is compared takes short turns, many of them. A
/// GPU decodes so much faster that as long turns would fill the pool with a few of them.
struct pace {
  explicit pace(const served_model& model)
      : window(model.on_gpu() ? 0.03 : 0.3), pool_tokens(model.on_gpu() ? 32'000 : 12'288) {}
  double window;             ///< seconds; a migration may take longer
  std::uint32_t pool_tokens; ///< of an instance
};
/// Seconds of a repetition, about: less tells 1.02 from 1.05 by chance.
constexpr double migrating_time = 20, copying_time = 4;
/// Of the copying thread's time: what the default was before the device chose it.
constexpr double quick_share = 0.25;

/// What moves blocks in the measured migrations, without them: 8 MiB, a rest, and so on.
class copying_thread {
public:
  explicit copying_thread(double bytes_per_second) : thread_([this, bytes_per_second] { work(bytes_per_second); }) {
    ready_.wait();
  }
  ~copying_thread() {
    stop_ = true;
    thread_.join();
  }
  copying_thread(const copying_thread&) = delete;
  copying_thread& operator=(const copying_thread&) = delete;

private:
  static constexpr std::size_t portion = std::size_t{8} << 20U, bytes = std::size_t{128} << 20U;
  void work(double rate) {
    std::vector<std::byte> from(bytes, std::byte{1}), to(bytes, std::byte{2});
    ready_.count_down(); // its memory is there
    auto next = now();
    for (std::size_t at = 0; !stop_; at = (at + portion) % bytes) {
      std::memcpy(to.data() + at, from.data() + at, portion);
      next += std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(portion) / rate * 1e9));
      next = std::max(next, now());
      std::this_thread::sleep_until(next);
    }
  }
  std::atomic<bool> stop_{false};
  std::latch ready_{1};
  std::thread thread_;
};

/// What moved, in all rounds.
struct totals {
  double bytes = 0, seconds = 1e-9, moves = 0;
};

/// Two instances with bystanders, and one request that moves between them.
class scene {
public:
  scene(const served_model& model, setup where, double copy_share, bool one_core, totals& moved)
      : pace_(model), moved_(moved), world_(model, {pace_.pool_tokens, copy_share, false, one_core}, where),
        mover_(world_, mover_tokens), turn_(pace_.window) {
    for (std::uint32_t i = 0; i < 2 * bystanders_each; ++i) {
      auto& one = bystanders_.emplace_back(std::make_unique<stream>(world_, bystander_tokens));
      one->move(instance_id{i % 2});
    }
    for (int i = 0; i < 2; ++i) swap(); // so that no measured copy is the first to touch its memory
  }

  /// Whether an instance with all that may come to it has place for some more turns.
  [[nodiscard]] bool room() const {
    const auto length = std::max_element(bystanders_.begin(), bystanders_.end(),
                                         [](const auto& a, const auto& b) { return a->length() < b->length(); })
                            ->get()
                            ->length();
    return bystanders_each * length + mover_.length() < pace_.pool_tokens / 4 * 3;
  }

  /// Seconds for a step of a bystander while `during` runs: all their tokens in the time, for the mover slows down
  /// those in whose batch it is, wherever that is and however often it changes. The step in which `during` ends counts:
  /// who was disturbed last is in it.
  template <class F> double step_during(F during) {
    std::vector<std::size_t> begin;
    for (const auto& one : bystanders_) begin.push_back(one->clock().count() - 1); // a step ended there
    during();
    std::vector<std::size_t> end;
    for (const auto& one : bystanders_) end.push_back(one->clock().count() + 1);
    double rate = 0;
    for (std::size_t i = 0; i < bystanders_.size(); ++i) {
      bystanders_[i]->clock().wait_for(end[i]);
      auto moments = bystanders_[i]->clock().from(begin[i]);
      moments.resize(end[i] - begin[i]);
      rate += static_cast<double>(moments.size() - 1) / seconds_between(moments.front(), moments.back());
    }
    return static_cast<double>(bystanders_.size()) / rate;
  }

  double quiet() {
    return step_during([this] { std::this_thread::sleep_for(std::chrono::duration<double>(turn_)); });
  }
  /// Also counts bytes and seconds.
  double migrating() {
    return step_during([this] {
      const auto start = now();
      do {
        moved_.bytes += static_cast<double>(swap().bytes);
        moved_.moves += 1;
      } while (seconds_between(start, now()) < pace_.window);
      turn_ = seconds_between(start, now());
      moved_.seconds += turn_;
    });
  }
  double copying() {
    const copying_thread beside(moved_.bytes / moved_.seconds);
    return quiet();
  }

private:
  protocols::migration_report swap() { return mover_.move(instance_id{mover_.instance() == instance_id{0} ? 1U : 0U}); }
  pace pace_;
  totals& moved_;
  world world_;
  stream mover_;
  std::vector<std::unique_ptr<stream>> bystanders_;
  double turn_; ///< seconds that the last migrations took, and the turn without any takes too
};

/// Steps get longer with each token, and the machine's speed changes: each turn is compared with the mean of the quiet
/// ones before and after it.
class turns {
public:
  template <class F> void take(scene& all, double seconds, F during) {
    auto before = all.quiet();
    for (const auto start = now(); with_.empty() || (seconds_between(start, now()) < seconds && all.room());) {
      with_.push_back(during());
      const auto after = all.quiet();
      without_.push_back((before + after) / 2);
      ratios_.push_back(with_.back() / without_.back());
      before = after;
    }
  }
  /// What half of the ratios lie between.
  [[nodiscard]] std::string spread() const {
    auto sorted = ratios_;
    std::sort(sorted.begin(), sorted.end());
    char text[64];
    std::snprintf(text, sizeof text, "%zu turns, half of them %.3f to %.3f", sorted.size(), sorted[sorted.size() / 4],
                  sorted[sorted.size() * 3 / 4]);
    return text;
  }
  [[nodiscard]] comparison result() const { return {median(with_) * 1e3, median(without_) * 1e3, median(ratios_)}; }

private:
  std::vector<double> with_, without_, ratios_;
};

void measure(session& out, const served_model& model, setup where, double share, bool one_core, const std::string& name,
             const std::string& suffix) {
  turns migrating, copying;
  totals moved;
  const auto rounds = share == quick_share ? 1 : out.repetitions(); // without a goal, enough is less
  for (int i = 0; i < rounds; ++i) {
    std::fprintf(stderr, "bench_migration: %s, %s, round %d\n", to_string(where), name.c_str(), i + 1);
    // A new one, or its requests would be several times as long in the end.
    {
      scene all(model, where, share, one_core, moved);
      migrating.take(all, migrating_time, [&] { return all.migrating(); });
    }
    scene all(model, where, share, one_core, moved); // another one: the first may have filled its pool
    copying.take(all, copying_time, [&] { return all.copying(); });
  }
  std::fprintf(stderr, "bench_migration: %s, %s: %s\n", to_string(where), name.c_str(), migrating.spread().c_str());
  const double bound = model.on_gpu() ? 1.01 : 1.02;
  auto step = compare("migration/" + name + suffix, migrating.result(), "ms", figure::direction::at_most, bound);
  if (share == quick_share) step.goal.reset(); // not what anybody gets who does not ask for it
  out.add(step);
  auto beside =
      compare("migration/" + name + "_plain_copy" + suffix, copying.result(), "ms", figure::direction::at_most, 0);
  beside.goal.reset();
  out.add(beside);
  figure rate;
  rate.name = "migration/" + name + "_rate" + suffix;
  rate.value = moved.bytes / moved.seconds * 1e-6;
  rate.unit = "MB/s";
  out.add(rate);
  rate.name = "migration/" + name + "_moves" + suffix;
  rate.value = moved.moves / moved.seconds;
  rate.unit = "1/s";
  out.add(rate);
}

} // namespace

void measure_bystanders(session& out, const served_model& model, setup where) {
  const std::string suffix = where == setup::in_process ? "/in_process" : "";
  const auto run = [&](double share, bool one_core, const std::string& name) {
    if (out.wants("migration/" + name + suffix)) measure(out, model, where, share, one_core, name, suffix);
  };
  run(shape{}.copy_share, false, "bystander_step");
  if (model.on_gpu()) return; // which copies by itself: the others are about the host's threads that do
  run(shape{}.copy_share, true, "bystander_step_one_core");
  run(quick_share, false, "bystander_step_quick_copy");
}

} // namespace godwit::bench
