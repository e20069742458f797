#pragma once

#include <godwit/gpu/model/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

/// Text from a file for an error line: in double quotes, control characters as '?', 80 characters at most.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Parses a file that nobody vouches for: at most `bytes_max` bytes, 32 levels. Throws model_error.
[[nodiscard]] boost::json::value parse_json(std::string_view text, const std::string& file, std::size_t bytes_max,
                                            boost::json::storage_ptr memory = {});

[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An object of a JSON file, read field by field; every refusal names file and field. A null counts as absent.
/// Valid while the parsed value lives.
class json_reader {
public:
  json_reader(const boost::json::value& value, std::string file, std::string path = {});

  [[nodiscard]] bool has(std::string_view field) const noexcept;
  [[nodiscard]] bool has_key(std::string_view field) const noexcept; ///< also when it is null
  [[nodiscard]] const boost::json::value* find(std::string_view field) const noexcept;
  [[nodiscard]] const boost::json::value& get(std::string_view field) const;

  [[nodiscard]] std::uint32_t count(std::string_view field, std::uint32_t least, std::uint32_t most) const;
  [[nodiscard]] std::uint32_t count(std::string_view field, std::uint32_t least, std::uint32_t most,
                                    std::uint32_t absent) const;
  [[nodiscard]] double number(std::string_view field, double least, double most) const;
  [[nodiscard]] double number(std::string_view field, double least, double most, double absent) const;
  [[nodiscard]] bool flag(std::string_view field, bool absent) const;
  [[nodiscard]] std::optional<std::string_view> text(std::string_view field) const;
  [[nodiscard]] std::string_view required_text(std::string_view field) const;
  [[nodiscard]] std::optional<json_reader> object(std::string_view field) const;
  [[nodiscard]] json_reader required_object(std::string_view field) const;
  [[nodiscard]] const boost::json::array* array(std::string_view field) const;

  [[nodiscard]] const boost::json::object& fields() const noexcept { return *object_; }
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  [[noreturn]] void fail(std::string_view field, const std::string& reason) const;

private:
  const boost::json::object* object_ = nullptr;
  std::string file_;
  std::string path_; ///< "rope_scaling." below another object
};

/// An integer, also when it is spelled 4096.0.
[[nodiscard]] std::optional<std::int64_t> integer_of(const boost::json::value& value) noexcept;

} // namespace godwit::gpu::model
