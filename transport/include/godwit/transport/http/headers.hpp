#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::transport::http {

/// Header fields in the order in which they were received or added. Names compare without regard to case (RFC
/// 9110, 5.1).
class headers {
public:
  struct field {
    std::string name;
    std::string value;
    friend bool operator==(const field&, const field&) = default;
  };

  headers() = default;
  headers(std::initializer_list<field> fields) : fields_(fields) {}

  void add(std::string name, std::string value) { fields_.push_back({std::move(name), std::move(value)}); }
  /// Replaces every field of that name.
  void set(std::string_view name, std::string value);
  /// The first field of that name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept { return find(name).has_value(); }
  [[nodiscard]] std::size_t count(std::string_view name) const noexcept;

  [[nodiscard]] auto begin() const noexcept { return fields_.begin(); }
  [[nodiscard]] auto end() const noexcept { return fields_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }
  [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }

private:
  std::vector<field> fields_;
};

/// ASCII only, as header names are.
[[nodiscard]] bool equal_without_case(std::string_view a, std::string_view b) noexcept;

} // namespace godwit::transport::http
