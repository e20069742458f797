#pragma once

#include <godwit/runtime/log/backend.hpp>

#include <functional>

namespace godwit::runtime::log {

/// The sibling of the file for simulations and tests: lines go to a string, at the time that `clock` says.
/// Keeps the first `bytes_max` bytes; later lines are counted as dropped.
class string_backend final : public backend {
public:
  using clock = std::function<std::chrono::nanoseconds()>;
  explicit string_backend(clock time = {}, format style = format::text, std::size_t bytes_max = 64 * 1024 * 1024);

  [[nodiscard]] std::chrono::nanoseconds now() override;
  void write(const record& r) override;
  void flush() override {}
  [[nodiscard]] std::uint64_t dropped() const override;
  [[nodiscard]] std::string text() const;

private:
  clock clock_;
  format style_;
  std::size_t bytes_max_;
  mutable std::mutex mutex_;
  std::string text_;
  std::uint64_t dropped_ = 0;
};

} // namespace godwit::runtime::log
