#include "main/trace_page.hpp"

namespace godwit::main {

std::string trace_page_with(std::string_view json) {
  constexpr std::string_view place = "id=\"recording\">";
  const auto page = trace_page();
  const auto at = page.find(place) + place.size();
  std::string out;
  out.reserve(page.size() + json.size());
  out += page.substr(0, at);
  out += json;
  out += page.substr(at);
  return out;
}

} // namespace godwit::main
