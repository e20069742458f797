#pragma once

#include <godwit/actors/trace_messages.hpp>

#include <functional>

namespace godwit::actors {

/// The recorder of a process, for the actor that operators reach it by. Thread-safe.
class trace_control {
public:
  trace_control() = default;
  trace_control(const trace_control&) = delete;
  trace_control& operator=(const trace_control&) = delete;
  virtual ~trace_control() = default;
  /// At once.
  [[nodiscard]] virtual trace_state set(const trace_order& order) = 0;
  /// `done` once, on a thread of its own; must only post or store.
  virtual void dump(const dump_order& order, std::function<void(dumped_file)> done) = 0;
  virtual void read(const dump_part_query& query, std::function<void(dump_part)> done) = 0;
};

} // namespace godwit::actors
