#pragma once

#include "trace/chunk_encoder.hpp"
#include "trace/compression.hpp"
#include "trace/file_format.hpp"
#include "trace/file_output.hpp"

#include <godwit/runtime/trace/file.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::runtime::trace {

/// A writer's chunk at hand, what it still has to tell of, and what was lost.
///
/// Once nothing can follow (the file is full, or writing failed) the gap is the last thing in the file, and is written
/// over as its count grows.
struct file_writer::state {
  static constexpr std::size_t text_bytes_max = std::size_t{1} << 16U; ///< of names and facts
  static constexpr std::size_t process_name_bytes_max = 256; ///< it is in every chunk, that of the last gap too

  state(std::unique_ptr<file_output> to, file_settings how);
  std::uint32_t add_process(const process& added);
  std::uint32_t name(std::string_view text);
  void name_actor(actor_id actor, std::string_view text);
  void add(const event& what);
  async::expected<void> flush();
  async::expected<void> close();

  dictionary names;
  std::unique_ptr<file_output> file;
  chunk_encoder chunk{names};
  std::uint64_t added_in_chunk = 0;
  std::uint64_t added_in_file = 0;
  std::uint64_t raw_in_file = 0;
  std::uint64_t lost = 0;
  bool closed = false;
  bool full = false;

private:
  struct stretch {
    std::uint32_t process = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct loss {
    stretch where;
    std::uint64_t count = 0;
    void add(const stretch& more, std::uint64_t events) noexcept;
  };
  [[nodiscard]] bool over() const noexcept { return full || error_ || closed; }
  [[nodiscard]] bool known(const actor_id& actor) const noexcept;
  [[nodiscard]] bool valid(const event& what) const noexcept;
  void announce();
  void put_chunk();
  void put_gap(const loss& what);
  void put_last_gap();
  void lose(const stretch& where, std::uint64_t events);
  [[nodiscard]] bool make_image(format::chunk_kind kind, std::span<const std::uint8_t> records);

  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  struct recent {
    const char* text = nullptr;
    std::uint32_t number = 0;
  };

  file_settings settings_;
  compressor zstd_;
  std::unordered_map<std::string, std::uint32_t, text_hash, std::equal_to<>> interned_;
  std::array<recent, 256> named_lately_; // by address: the same names mostly come from the same places
  std::vector<std::uint32_t> processes_to_tell_;
  std::vector<std::pair<actor_id, std::string>> actors_to_tell_;
  std::vector<std::uint8_t> image_; // of chunks, as they go to the file
  std::uint32_t sequence_ = 0;
  std::uint32_t events_in_file_ = 0;            // gaps too, modulo 2^32
  stretch around_;                              // of the events in the chunk at hand
  loss gap_;                                    // what is not in the file yet
  std::optional<std::uint64_t> last_gap_begin_; // where the last chunk of the file lies
  std::uint64_t last_gap_told_ = 0;             // the count that it says
  std::optional<async::error> error_;
};

} // namespace godwit::runtime::trace
