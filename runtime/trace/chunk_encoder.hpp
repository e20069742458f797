#pragma once

#include "trace/local_table.hpp"

#include <godwit/runtime/trace/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace godwit::runtime::trace {

/// What a writer was told of, by its own numbers.
struct dictionary {
  std::vector<process> processes;
  std::vector<std::string_view> names{{}}; ///< [0] is empty
};

/// Encodes the records of one chunk after the other. A chunk says itself what its numbers mean: what an event names is
/// defined right before the first event of the chunk that does.
class chunk_encoder {
public:
  /// `known` must live as long, and only grows.
  explicit chunk_encoder(const dictionary& known) : known_(known) { clear(); }

  /// Whose numbers are all in the dictionary.
  void event(const trace::event& what);
  void process(std::uint32_t which) { static_cast<void>(process_of(which)); }
  void fact(std::uint32_t which, const attribute& what);
  void actor_name(actor_id actor, std::string_view text);

  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  [[nodiscard]] std::uint32_t events() const noexcept { return events_; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return {buffer_.data(), used_}; }
  /// Begins the next chunk.
  void clear();

private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct lane {
    std::uint32_t series = none; // of the last event, and of the last cause
    std::uint32_t cause_series = none;
    std::uint64_t end = 0;
    std::uint64_t request = 0;
    std::uint64_t first = 0;
  };
  struct series {
    std::uint64_t id = 0; // the last one, and the last that was a cause
    std::uint64_t cause = 0;
  };
  std::uint32_t process_of(std::uint32_t which);
  std::uint32_t name_of(std::uint32_t which);
  std::uint32_t actor_of(actor_id actor);
  std::uint32_t lane_of(std::uint32_t process, std::uint32_t thread);
  std::uint32_t series_of(const event_id& id);
  [[nodiscard]] std::uint8_t* open(std::size_t room);
  void close(std::uint8_t* end);
  void define(std::uint8_t kind, std::uint64_t first, std::uint64_t second);

  const dictionary& known_;
  std::vector<std::uint8_t> buffer_;
  std::size_t used_ = 0;
  std::uint32_t events_ = 0;
  std::vector<std::uint32_t> processes_; // by the writer's number: 0, or the chunk's number and one
  std::vector<std::uint32_t> names_;     // by the writer's number: 0, or the chunk's
  std::uint32_t processes_used_ = 0;
  std::uint32_t names_used_ = 0;
  local_table actors_;
  local_table lanes_;
  local_table series_;
  std::vector<lane> lane_states_;
  std::vector<series> series_states_;
  std::uint32_t lane_ = 0; // of the event before
};

} // namespace godwit::runtime::trace
