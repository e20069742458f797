#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::explore {

/// What runs brought about, by name: a search to which one of these never happens does not look there.
class effects {
public:
  effects();
  /// In the order in which they are told; all that are known.
  [[nodiscard]] static const std::vector<std::string>& names();
  /// What is not among the names is not counted.
  void add(std::string_view name, std::uint64_t times = 1);
  void add(const effects& more);
  /// In the order of the names.
  [[nodiscard]] std::vector<std::uint64_t>& counts() noexcept { return counts_; }
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const noexcept { return counts_; }
  [[nodiscard]] std::uint64_t of(std::string_view name) const;

private:
  std::vector<std::uint64_t> counts_;
};

} // namespace godwit::explore
