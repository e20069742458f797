#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace godwit::main {

/// The instances' last load reports as metrics. Thread-safe.
class load_board {
public:
  explicit load_board(runtime::metrics::registry& metrics);
  void take(const protocols::load_report& report);
  /// Forgets the others.
  void retain(const std::set<protocols::instance_id>& there);

private:
  /// NaN: no sample.
  using value_of = double (*)(const protocols::load_report&);
  void add(runtime::metrics::registry& metrics, const char* name, const char* help, value_of read);

  mutable std::mutex mutex_;
  std::map<protocols::instance_id, protocols::load_report> reports_;
  std::vector<runtime::metrics::registry::registration> registrations_; // last: ends the callbacks first
};

} // namespace godwit::main
