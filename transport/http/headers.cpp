#include <godwit/transport/http/headers.hpp>

#include <algorithm>

namespace godwit::transport::http {

namespace {
char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
} // namespace

bool equal_without_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

void headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const field& f) { return equal_without_case(f.name, name); });
  add(std::string(name), std::move(value));
}

std::optional<std::string_view> headers::find(std::string_view name) const noexcept {
  for (const auto& f : fields_)
    if (equal_without_case(f.name, name)) return f.value;
  return std::nullopt;
}

std::size_t headers::count(std::string_view name) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(fields_.begin(), fields_.end(), [&](const field& f) { return equal_without_case(f.name, name); }));
}

} // namespace godwit::transport::http
