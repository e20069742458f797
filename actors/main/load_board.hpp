#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace godwit::main {

/// What dashboards made for vLLM want to know besides the reports.
struct served_facts {
  std::string model; ///< empty: nothing is exported under vLLM's names
  std::string cache_dtype;
  bool prefix_caching = true;
};

/// The instances' last load reports as metrics. Thread-safe.
class load_board {
public:
  explicit load_board(runtime::metrics::registry& metrics, served_facts facts = {});
  void take(const protocols::load_report& report);
  /// Forgets the others.
  void retain(const std::set<protocols::instance_id>& there);

  /// Of all instances; what counts does so from this board's making, whoever is gone or was started anew meanwhile.
  struct sums {
    std::uint64_t running = 0;
    std::uint64_t waiting = 0;
    std::uint64_t blocks_total = 0;
    std::uint64_t blocks_used = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t answer_tokens = 0;
  };
  [[nodiscard]] sums all() const;

private:
  /// NaN: no sample.
  using value_of = double (*)(const protocols::load_report&);
  enum class kind : std::uint8_t { gauge, counter };
  void add(runtime::metrics::registry& metrics, kind what, const char* name, const char* help, value_of read);
  void add_vllm(runtime::metrics::registry& metrics);
  void add_vllm(runtime::metrics::registry& metrics, kind what, const char* name, const char* help, value_of read);
  [[nodiscard]] runtime::metrics::labels cache_labels(const protocols::load_report& report) const;

  const served_facts facts_;
  mutable std::mutex mutex_;
  std::map<protocols::instance_id, protocols::load_report> reports_;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t answer_tokens_ = 0;
  std::vector<runtime::metrics::registry::registration> registrations_; // last: ends the callbacks first
};

} // namespace godwit::main
