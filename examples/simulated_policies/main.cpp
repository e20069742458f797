// A scheduling idea tried on eight instances that nobody has, beside Llumnix and round robin as `godwit sim` has them:
// long prompts go to the even instances and short ones to the odd ones, so that nobody waits behind a long prompt; and
// in each round the instance with the most requests gives some to the one with the fewest.
//   simulated_policies [TRACE [RECORDING]]
// TRACE is of Azure, BurstGPT or Mooncake; without one lengths are drawn. RECORDING, for `godwit trace`, is of the
// first run of the idea.
#include <godwit/actors/sim/simulation.hpp>
#include <godwit/gpu/sim/profile.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/workload/trace.hpp>
#include <godwit/protocols/workload/workload.hpp>
#include <godwit/runtime/trace/file_recorder.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace godwit;
namespace workload = protocols::workload;
namespace trace = runtime::trace;

constexpr std::uint32_t instances = 8;

class by_length final : public protocols::dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "by_length"; }

private:
  // Of an instance, whatever the request: what is in use or asked for, by what there is.
  [[nodiscard]] double rate(const protocols::load_report& report, const picked_load& picked) const noexcept override {
    const auto blocks = report.blocks_used + report.waiting_blocks + picked.blocks;
    return -static_cast<double>(blocks) / std::max(1U, report.blocks_total);
  }
  [[nodiscard]] double score(double rating) const noexcept override { return -rating; }
  // For this request: the best rated of its half, or of all where its half takes none.
  [[nodiscard]] finding find(const std::vector<place>& places, const protocols::dispatch_demand& demand) override {
    const std::uint32_t half = demand.tokens > 500 ? 0 : 1;
    const auto found = best_of(places, [&](std::size_t i) { return reports()[i].instance.value() % 2 == half; });
    return found.best != finding::none ? found : best_of(places);
  }
};

std::vector<protocols::migration_pair> even_out(const std::vector<protocols::load_report>& loads,
                                                const protocols::pairing_settings& settings, std::uint64_t /*round*/) {
  if (settings.policy != protocols::migration_policy::freeness) return {}; // an operator has paused or forbidden it
  std::vector<protocols::load_report> ready;
  std::ranges::copy_if(loads, std::back_inserter(ready), [](const auto& l) { return l.ready && !l.terminating; });
  if (ready.empty()) return {};
  const auto requests = [](const protocols::load_report& l) { return l.running + l.waiting; };
  const auto [least, most] = std::ranges::minmax_element(ready, {}, requests);
  if (requests(*most) < requests(*least) + 4 || most->kv_kind != least->kv_kind) return {};
  return {{most->instance, least->instance}};
}

struct scheduling {
  const char* name;
  void (*set)(actors::scheduler_options&);
};
constexpr scheduling compared[] = {
    {"llumnix", [](actors::scheduler_options&) {}}, // what the node of the command has
    {"round_robin",
     [](actors::scheduler_options& o) {
       o.policies.dispatch = "round_robin";
       o.policies.migration = protocols::migration_policy::never;
     }},
    {"by_length",
     [](actors::scheduler_options& o) {
       o.dispatchers["by_length"] = [] { return std::make_unique<by_length>(); };
       o.policies.dispatch = "by_length";
       o.pair = even_out;
     }},
};

// A run as a file. It is pumped between the steps, so that nothing is lost however fast the run is.
class recording final : public actors::sim::run_recorder {
public:
  explicit recording(std::unique_ptr<trace::file_writer> file) : file_(std::move(file)) {}
  [[nodiscard]] std::shared_ptr<trace::recorder> begin(const runtime::clock& clock) override {
    trace::process who;
    who.name = "by_length";
    trace::recorder_settings settings;
    settings.level = trace::level::content;
    // What 512 steps make must find room, and a step in which an actor tells all others something makes many.
    settings.events_per_thread = settings.events_beside = std::size_t{1} << 16U;
    recorder_ = std::make_shared<trace::recorder>(std::move(who), std::move(settings), clock);
    feed_ = std::make_unique<trace::file_feed>(*recorder_, *file_);
    return recorder_;
  }
  void pump() override { feed_->pump(); }
  // Whether all of the run is in the file.
  [[nodiscard]] bool close() { return file_->close() && file_->lost() + recorder_->lost() == 0; }

private:
  std::unique_ptr<trace::file_writer> file_;
  std::shared_ptr<trace::recorder> recorder_;
  std::unique_ptr<trace::file_feed> feed_;
};

std::optional<std::vector<workload::workload_request>> requests_of(const char* file, std::uint64_t seed) {
  if (file == nullptr) {
    workload::workload_spec spec;
    spec.requests = 500;
    spec.arrivals.rate = 6;
    spec.lengths = workload::parse_lengths("M-M").value();
    spec.seed = seed;
    return workload::make_workload(spec);
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::fprintf(stderr, "cannot read %s\n", file), std::nullopt;
  auto read = workload::read_trace(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!read) return std::fprintf(stderr, "%s\n", read.error().text(file).c_str()), std::nullopt;
  auto requests = std::move(read->requests);
  requests.resize(std::min<std::size_t>(requests.size(), 1000));
  workload::draw_arrivals(requests, {4, 1}, seed); // its lengths, and other arrivals for each seed
  return requests;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

// Whether every request was answered.
bool report(const char* name, std::uint64_t seed, const actors::sim::simulation_result& result) {
  std::vector<double> first_ms, whole_ms;
  for (const auto& r : result.requests) {
    if (!r.answered()) continue;
    first_ms.push_back(static_cast<double>(r.first_token_ns - r.arrival_ns) * 1e-6);
    whole_ms.push_back(static_cast<double>(r.ended_ns - r.arrival_ns) * 1e-6);
  }
  std::uint64_t moves = 0;
  for (const auto& [cause, count] : result.migrations_committed) moves += count;
  std::printf("%-12s %4llu %10.1f %10.1f %12.1f %11llu\n", name, static_cast<unsigned long long>(seed),
              quantile(first_ms, 0.5), quantile(first_ms, 0.99), quantile(whole_ms, 0.99),
              static_cast<unsigned long long>(moves));
  for (const auto& line : result.complaints) std::fprintf(stderr, "%s\n", line.c_str()); // a policy that threw, say
  return first_ms.size() == result.requests.size() && result.complaints.empty();
}

int run(const char* workload_file, const char* recording_file) {
  const auto device = gpu::sim::open_profile("llama-7b-a10");
  if (!device) return std::fprintf(stderr, "%s\n", device.error().line.c_str()), 1;
  bool well = true;
  std::printf("%-12s %4s %10s %10s %12s %11s\n", "ms", "seed", "first P50", "first P99", "whole P99", "migrations");
  for (const auto& [name, set] : compared)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      auto requests = requests_of(workload_file, seed); // the same for each
      if (!requests) return 1;
      actors::sim::simulation_options options;
      options.cluster.seed = seed;
      options.cluster.instances = instances;
      options.cluster.device = *device;
      options.cluster.node = actors::sim::node_of_the_command();
      set(options.cluster.node.scheduler);
      workload::clamp_to_context(*requests, actors::sim::context_length_of(options.cluster));
      options.requests = std::move(*requests);
      std::shared_ptr<recording> recorded;
      if (recording_file != nullptr && std::string_view(name) == "by_length" && seed == 1) {
        auto file = trace::file_writer::create(recording_file);
        if (!file) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
        options.cluster.recorder = recorded = std::make_shared<recording>(std::move(*file));
      }
      const auto result = actors::sim::simulate(std::move(options));
      if (!result.trouble.empty()) return std::fprintf(stderr, "%s\n", result.trouble.c_str()), 1;
      well = report(name, seed, result) && well;
      if (recorded && !recorded->close()) return std::fprintf(stderr, "%s is not whole\n", recording_file), 1;
    }
  return well ? 0 : 1;
}

} // namespace

int main(int count, char** arguments) {
  try {
    return run(count > 1 ? arguments[1] : nullptr, count > 2 ? arguments[2] : nullptr);
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 1;
  }
}
