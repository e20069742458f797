#include "model/json_reader.hpp"

#include <boost/json/parse.hpp>

#include <cmath>

namespace godwit::gpu::model {

namespace json = boost::json;

namespace {

constexpr std::size_t depth_max = 32;

std::string range(double least, double most) {
  const auto spell = [](double value) {
    auto text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (!text.empty() && text.back() == '.') text.pop_back();
    return text;
  };
  return "must be a number from " + spell(least) + " to " + spell(most);
}

} // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t shown = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    result += (byte < 0x20 || byte == 0x7F) ? '?' : c;
  }
  // A cut must not leave half a character.
  while (text.size() > shown && result.size() > 1 && (static_cast<unsigned char>(result.back()) & 0x80U) != 0)
    result.pop_back();
  return result + (text.size() > shown ? "...\"" : "\"");
}

json::value parse_json(std::string_view text, const std::string& file, std::size_t bytes_max,
                       json::storage_ptr memory) {
  if (text.size() > bytes_max)
    throw model_error(file, "is larger than the limit of " + std::to_string(bytes_max) + " bytes");
  json::parse_options options;
  options.max_depth = depth_max;
  json::error_code error;
  auto value = json::parse(json::string_view(text.data(), text.size()), error, std::move(memory), options);
  if (error) throw model_error(file, "is not valid JSON (" + error.message() + ")");
  return value;
}

std::optional<std::int64_t> integer_of(const json::value& value) noexcept {
  if (const auto* exact = value.if_int64()) return *exact;
  if (const auto* real = value.if_double(); real && std::abs(*real) < 9e15 && *real == std::trunc(*real))
    return static_cast<std::int64_t>(*real);
  return std::nullopt;
}

json_reader::json_reader(const json::value& value, std::string file, std::string path)
    : object_(value.if_object()), file_(std::move(file)), path_(std::move(path)) {
  if (object_) return;
  const auto what = path_.empty() ? std::string("the top level") : path_.substr(0, path_.size() - 1);
  throw model_error(file_, what + " must be an object");
}

void json_reader::fail(std::string_view field, const std::string& reason) const {
  throw model_error(file_, path_ + std::string(field) + ": " + reason);
}

const json::value* json_reader::find(std::string_view field) const noexcept {
  const auto* value = object_->if_contains(json::string_view(field.data(), field.size()));
  return value && !value->is_null() ? value : nullptr;
}

bool json_reader::has(std::string_view field) const noexcept { return find(field) != nullptr; }

bool json_reader::has_key(std::string_view field) const noexcept {
  return object_->contains(json::string_view(field.data(), field.size()));
}

const json::value& json_reader::get(std::string_view field) const {
  if (const auto* value = find(field)) return *value;
  fail(field, "is missing");
}

std::uint32_t json_reader::count(std::string_view field, std::uint32_t least, std::uint32_t most) const {
  const auto whole = integer_of(get(field));
  if (!whole || *whole < std::int64_t{least} || *whole > std::int64_t{most})
    fail(field, "must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return static_cast<std::uint32_t>(*whole);
}

std::uint32_t json_reader::count(std::string_view field, std::uint32_t least, std::uint32_t most,
                                 std::uint32_t absent) const {
  return has(field) ? count(field, least, most) : absent;
}

double json_reader::number(std::string_view field, double least, double most) const {
  const auto& value = get(field);
  if (!value.is_number()) fail(field, range(least, most));
  const auto real = value.to_number<double>();
  if (!(real >= least && real <= most)) fail(field, range(least, most));
  return real;
}

double json_reader::number(std::string_view field, double least, double most, double absent) const {
  return has(field) ? number(field, least, most) : absent;
}

bool json_reader::flag(std::string_view field, bool absent) const {
  const auto* value = find(field);
  if (!value) return absent;
  if (const auto* truth = value->if_bool()) return *truth;
  fail(field, "must be true or false");
}

std::optional<std::string_view> json_reader::text(std::string_view field) const {
  const auto* value = find(field);
  if (!value) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string_view(text->data(), text->size());
  fail(field, "must be a string");
}

std::string_view json_reader::required_text(std::string_view field) const {
  if (const auto found = text(field)) return *found;
  fail(field, "is missing");
}

std::optional<json_reader> json_reader::object(std::string_view field) const {
  const auto* value = find(field);
  if (!value) return std::nullopt;
  return json_reader(*value, file_, path_ + std::string(field) + ".");
}

json_reader json_reader::required_object(std::string_view field) const {
  return {get(field), file_, path_ + std::string(field) + "."};
}

const json::array* json_reader::array(std::string_view field) const {
  const auto* value = find(field);
  if (!value) return nullptr;
  if (const auto* array = value->if_array()) return array;
  fail(field, "must be an array");
}

} // namespace godwit::gpu::model
