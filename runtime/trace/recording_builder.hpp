#pragma once

#include <godwit/runtime/trace/file.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::runtime::trace {

/// Puts a recording together from chunks, within limits: what does not fit is refused, and then all that follows.
class recording_builder {
public:
  explicit recording_builder(read_limits limits) : limits_(limits) { made_.names.emplace_back(); }

  /// The recording's number for a process that the file calls `number`. What is said later replaces what was said.
  [[nodiscard]] std::uint32_t process(std::uint64_t number, process&& said);
  [[nodiscard]] std::uint32_t name(std::string_view text);
  void fact(std::uint32_t process, attribute&& what);
  void actor_name(actor_id actor, std::string&& text);
  void add(event&& what);
  /// A record that this version does not know was left out.
  void unknown() noexcept;

  [[nodiscard]] bool full() const noexcept { return full_; }
  [[nodiscard]] std::size_t events() const noexcept { return made_.events.size(); }
  /// The first few are kept, and all that are about the whole.
  void remark(std::string text);
  /// Of what is missing before something that is there.
  void hole(std::string text);
  void remark_on_all(std::string text) { on_all_.push_back(std::move(text)); }
  /// Sorted, with the names of actors that spawned events say, and a last remark or two.
  [[nodiscard]] recording finish();

private:
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  using numbers_of_names = std::unordered_map<std::string, std::uint32_t, text_hash, std::equal_to<>>;
  /// False: no more.
  [[nodiscard]] bool take(std::size_t bytes) noexcept;

  read_limits limits_;
  recording made_;
  std::unordered_map<std::uint64_t, std::uint32_t> processes_;
  numbers_of_names names_;
  std::unordered_map<std::uint32_t, numbers_of_names> facts_; ///< where a process's facts lie, by their names
  std::uint64_t memory_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t remarks_left_out_ = 0;
  std::vector<std::string> on_all_;
  bool full_ = false;
};

/// By begin_ns with the process's offset, then by id.
void sort_events(recording& of);

} // namespace godwit::runtime::trace
