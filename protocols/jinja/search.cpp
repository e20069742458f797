#include "jinja/search.hpp"

#include <cstring>

namespace godwit::protocols::jinja {

std::size_t find_first(std::string_view in, std::string_view what, std::size_t from) noexcept {
  if (from > in.size()) return std::string_view::npos;
  if (what.empty()) return from;
  if (what.size() > in.size() - from) return std::string_view::npos;
  const auto* found = ::memmem(in.data() + from, in.size() - from, what.data(), what.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - in.data());
}

std::size_t find_last(std::string_view in, std::string_view what) {
  if (what.size() > in.size()) return std::string_view::npos;
  const auto found = find_first(mirrored(in), mirrored(what));
  return found == std::string_view::npos ? found : in.size() - found - what.size();
}

std::size_t count_matches(std::string_view in, std::string_view what, std::size_t most) noexcept {
  std::size_t count = 0;
  for (auto at = find_first(in, what); count < most && at != std::string_view::npos;
       at = find_first(in, what, at + what.size()))
    ++count;
  return count;
}

std::string mirrored(std::string_view bytes) { return {bytes.rbegin(), bytes.rend()}; }

} // namespace godwit::protocols::jinja
