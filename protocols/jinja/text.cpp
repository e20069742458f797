#include <godwit/protocols/jinja/text.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols::jinja {

text::text(std::string bytes, bool markup) : bytes_(std::move(bytes)) { extend(bytes_.size(), markup); }

void text::extend(std::size_t end, bool markup) {
  if (end == (runs_.empty() ? 0 : runs_.back().end)) return;
  if (!runs_.empty() && runs_.back().markup == markup)
    runs_.back().end = end;
  else
    runs_.push_back({end, markup});
}

bool text::markup_at(std::size_t at) const noexcept {
  const auto found =
      std::upper_bound(runs_.begin(), runs_.end(), at, [](std::size_t place, const run& r) { return place < r.end; });
  return found != runs_.end() && found->markup;
}

void text::append(std::string_view bytes, bool markup) {
  bytes_ += bytes;
  extend(bytes_.size(), markup);
}

void text::append(const text& other, std::size_t from, std::size_t to) {
  auto at = std::upper_bound(other.runs_.begin(), other.runs_.end(), from,
                             [](std::size_t place, const run& r) { return place < r.end; });
  while (from < to) {
    const auto end = std::min(at->end, to);
    bytes_.append(other.bytes_, from, end - from);
    extend(bytes_.size(), at->markup);
    from = end;
    ++at;
  }
}

text text::slice(std::size_t from, std::size_t to) const {
  text out;
  out.append(*this, from, to);
  return out;
}

} // namespace godwit::protocols::jinja
