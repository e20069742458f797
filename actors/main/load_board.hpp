#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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
  /// Ignored from an instance that is not among those adopted, or of an earlier start.
  void take(const protocols::load_report& report);
  /// Who is there: the others are forgotten, and of those that are not ready nothing is shown.
  void adopt(const actors::topology& news);

  /// Of all instances that are ready; what counts does so from this board's making, whoever is gone or was started anew
  /// meanwhile.
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

  void each_ready(const std::function<void(const protocols::load_report&)>& visit) const;

  struct known {
    std::uint64_t generation = 0;
    bool ready = false;
    protocols::load_report last; ///< of its generation or the one before
  };
  const served_facts facts_;
  mutable std::mutex mutex_; // for all that follows, but the registrations
  std::map<protocols::instance_id, known> instances_;
  std::uint32_t ready_ = 0; ///< instances
  std::uint32_t draining_ = 0;
  std::uint32_t starting_ = 0, down_ = 0;
  std::uint32_t ordered_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t answer_tokens_ = 0;
  std::vector<runtime::metrics::registry::registration> registrations_; // last: ends the callbacks first
};

} // namespace godwit::main
