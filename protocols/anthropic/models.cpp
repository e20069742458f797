#include <godwit/protocols/anthropic/models.hpp>

#include "openai/json_parts.hpp"

#include <godwit/protocols/openai/json_text.hpp>

#include <chrono>
#include <cstdio>

namespace godwit::protocols::anthropic {

namespace {

using openai::json_string;

/// RFC 3339.
std::string time_of(std::int64_t unix_s) {
  using namespace std::chrono;
  const auto time = sys_seconds(seconds(unix_s));
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  char out[64];
  std::snprintf(out, sizeof out, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return out;
}

} // namespace

std::string model_info(const openai::model_card& model) {
  const auto length = model.max_model_len > 0 ? std::to_string(model.max_model_len) : "null";
  return R"({"type":"model","id":)" + json_string(model.id) + R"(,"display_name":)" + json_string(model.id) +
         R"(,"created_at":")" + time_of(model.created_s) + R"(","max_input_tokens":)" + length + R"(,"max_tokens":)" +
         length + R"(,"capabilities":null,"lifecycle":"active","deprecated_at":null,"retires_at":null,"line":null})";
}

std::string models_page(const std::vector<openai::model_card>& models) {
  std::string out = R"({"data":)";
  openai::append_list(out, models, [&](const openai::model_card& model) { out += model_info(model); });
  const auto id = [&](const auto& of) { return models.empty() ? std::string("null") : json_string(of()); };
  out += R"(,"has_more":false,"first_id":)" + id([&] { return models.front().id; });
  return out + R"(,"last_id":)" + id([&] { return models.back().id; }) + '}';
}

} // namespace godwit::protocols::anthropic
