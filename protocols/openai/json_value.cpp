#include "openai/json_value.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols::openai {

namespace json = boost::json;

jinja::value to_template_value(const json::value& of) {
  switch (of.kind()) {
  case json::kind::null:
    return jinja::none_t{};
  case json::kind::bool_:
    return of.get_bool();
  case json::kind::int64:
    return std::int64_t{of.get_int64()};
  case json::kind::uint64:
    return jinja::value::whole(of.get_uint64());
  case json::kind::double_:
    return of.get_double();
  case json::kind::string:
    return jinja::value::content(std::string(of.get_string().data(), of.get_string().size()));
  case json::kind::array: {
    std::vector<jinja::value> items;
    items.reserve(of.get_array().size());
    for (const auto& item : of.get_array()) items.push_back(to_template_value(item));
    return jinja::value(std::move(items));
  }
  case json::kind::object: {
    std::vector<jinja::dict_entry> entries;
    entries.reserve(of.get_object().size());
    for (const auto& field : of.get_object())
      entries.push_back(
          {jinja::text(std::string(field.key().data(), field.key().size()), false), to_template_value(field.value())});
    return jinja::value::dict(std::move(entries));
  }
  }
  return {};
}

std::size_t values_in(const json::value& of) noexcept {
  std::size_t count = 1;
  if (const auto* list = of.if_array())
    for (const auto& item : *list) count += values_in(item);
  if (const auto* fields = of.if_object())
    for (const auto& field : *fields) count += values_in(field.value());
  return count;
}

} // namespace godwit::protocols::openai
