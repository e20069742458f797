#include <godwit/protocols/jinja/value.hpp>

#include <algorithm>
#include <cstdint>
#include <map>

namespace godwit::protocols::jinja {

value::value(std::vector<value> items) {
  auto body = std::make_shared<list_body>();
  for (const auto& item : items) body->depth = std::max(body->depth, item.depth() + 1);
  body->items = std::move(items);
  data_ = std::shared_ptr<const list_body>(std::move(body));
}

value value::whole(std::uint64_t number) {
  if (number <= INT64_MAX) return {static_cast<std::int64_t>(number)};
  value out;
  out.data_ = number;
  return out;
}

value value::dict(std::vector<dict_entry> entries) {
  auto body = std::make_shared<dict_body>();
  std::map<std::string, std::size_t> places; // not hashed: a client may know keys that all have one hash
  body->entries.reserve(entries.size());
  for (auto& entry : entries) {
    const auto [place, fresh] = places.try_emplace(entry.key.bytes(), body->entries.size());
    if (fresh)
      body->entries.push_back(std::move(entry));
    else
      body->entries[place->second].held = std::move(entry.held);
  }
  for (const auto& entry : body->entries) body->depth = std::max(body->depth, entry.held.depth() + 1);
  value out;
  out.data_ = std::shared_ptr<const dict_body>(std::move(body));
  return out;
}

const value* value::find(std::string_view key) const {
  for (const auto& entry : entries())
    if (entry.key.bytes() == key) return &entry.held;
  return nullptr;
}

std::uint32_t value::depth() const noexcept {
  if (const auto* list = std::get_if<std::shared_ptr<const list_body>>(&data_)) return (*list)->depth;
  if (const auto* dict = std::get_if<std::shared_ptr<const dict_body>>(&data_)) return (*dict)->depth;
  return 0;
}

} // namespace godwit::protocols::jinja
