#include <godwit/gpu/sim/profile.hpp>

#include "model/json_reader.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

namespace godwit::gpu::sim {

namespace json = boost::json;
using model::json_reader;

namespace {

constexpr std::string_view format_name = "godwit-profile/1";
constexpr std::size_t line_bytes_max = 200;
constexpr std::size_t bytes_max = std::size_t{1} << 20;
constexpr std::size_t points_max = 10'000;
constexpr std::size_t entries_max = 1000;
constexpr std::uint32_t count_max = 1U << 24;
constexpr double us_max = 1e12;
constexpr double least_rate = 1e-3, most = 1e24;

// A field that nobody reads is a typing error or a wish that would not be heard.
void refuse_others(const json_reader& object, std::initializer_list<std::string_view> known) {
  for (const auto& entry : object.fields()) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (std::find(known.begin(), known.end(), key) == known.end()) object.fail(key, "is not a field of a profile");
  }
}

/// Of two entries with one name the parser keeps one, and an editor's slip would be measured with. `text` is valid
/// JSON.
void refuse_repeated(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string_view>> open;
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    if (text[i] == '{') open.emplace_back();
    if (text[i] == '}') open.pop_back();
    if (text[i] != '"') continue;
    const auto begin = ++i;
    while (text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    const auto name = text.substr(begin, i - begin);
    const auto next = text.find_first_not_of(" \t\r\n", i + 1);
    if (next == text.npos || text[next] != ':') continue;
    const auto refuse = [&](const char* why) {
      throw model::model_error(file, "line " + std::to_string(line) + ": " + model::in_quotes(name) + why);
    };
    if (name.find('\\') != name.npos) refuse(" is not a field of a profile"); // or is one by another writing
    if (!open.back().insert(name).second) refuse(" occurs twice in one object; give it once");
  }
}

step_table table_of(const json_reader& object, std::string_view field, bool needed) {
  step_table out;
  const auto* rows = object.array(field);
  if (!rows) {
    if (needed) object.fail(field, "is missing");
    return out;
  }
  const auto at = [&](std::size_t i) { return std::string(field) + "[" + std::to_string(i) + "]"; };
  if (rows->size() > points_max || (needed && rows->empty()))
    object.fail(field, "must have 1 to " + std::to_string(points_max) + " points");
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const auto* row = (*rows)[i].if_array();
    if (!row || row->size() != 2) object.fail(at(i), "must be a pair [count, us]");
    const auto count = model::integer_of((*row)[0]);
    if (!count || *count < 1 || *count > count_max)
      object.fail(at(i), "has a count that is not an integer from 1 to " + std::to_string(count_max));
    const auto us = (*row)[1].is_number() ? (*row)[1].to_number<double>() : -1;
    if (!(us >= 0 && us <= us_max)) object.fail(at(i), "has a time that is not a number of us from 0 to 1e12");
    if (!out.points.empty() && *count <= out.points.back().count)
      object.fail(at(i), "has a count that is not above the one before");
    // A single row is another kernel's work, of a vector and a matrix, and may take longer than two.
    if (out.points.size() > 1 && us < out.points.back().us) object.fail(at(i), "takes less time than the point before");
    out.points.push_back({static_cast<std::uint32_t>(*count), us});
  }
  return out;
}

step_spread spread_of(const json_reader& step) {
  step_spread out;
  const auto given = step.object("spread");
  if (!given) return out;
  const auto& part = *given;
  constexpr double factor_most = 1e3;
  refuse_others(part, {"factors", "kept"});
  out.kept = part.number("kept", 0, 1);
  const auto* rows = part.array("factors");
  if (!rows || rows->empty() || rows->size() > entries_max)
    part.fail("factors", "must have 1 to " + std::to_string(entries_max) + " numbers");
  for (const auto& row : *rows) {
    const auto factor = row.is_number() ? row.to_number<double>() : 0;
    if (!(factor > 0 && factor <= factor_most)) part.fail("factors", "must be numbers above 0 and up to 1000");
    if (!out.factors.empty() && factor < out.factors.back()) part.fail("factors", "must not fall");
    out.factors.push_back(factor);
  }
  return out;
}

std::vector<profile_calibration> calibration_of(const json_reader& top, const std::string& file) {
  std::vector<profile_calibration> out;
  const auto* rows = top.array("calibration");
  if (!rows) return out;
  if (rows->size() > entries_max) top.fail("calibration", "is too long");
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const json_reader row((*rows)[i], file, "calibration[" + std::to_string(i) + "].");
    refuse_others(row, {"field", "value", "without", "reason"});
    out.push_back({std::string(row.required_text("field")), row.number("value", -most, most),
                   row.number("without", -most, most), std::string(row.required_text("reason"))});
  }
  return out;
}

std::vector<std::string> assumptions_of(const json_reader& top) {
  std::vector<std::string> out;
  const auto* rows = top.array("assumptions");
  if (!rows) return out;
  if (rows->size() > entries_max) top.fail("assumptions", "is too long");
  for (const auto& row : *rows) {
    if (!row.is_string()) top.fail("assumptions", "must be an array of strings");
    out.emplace_back(row.get_string());
  }
  return out;
}

/// What reports have within a line.
std::string line_of(const json_reader& part, const char* field) {
  std::string out(part.required_text(field));
  const bool harmless = std::ranges::none_of(out, [](unsigned char c) { return c < ' ' || c == 0x7F; });
  if (!harmless || out.size() > line_bytes_max)
    part.fail(field, "must be one line of at most " + std::to_string(line_bytes_max) + " bytes");
  return out;
}

void read_model(const json_reader& part, profile& out) {
  refuse_others(part, {"name", "layers", "vocabulary", "positions_max", "weight_bytes", "kv_bytes_per_token"});
  out.model = line_of(part, "name");
  out.layers = part.count("layers", 1, 100'000);
  out.vocabulary = part.count("vocabulary", 1, 1U << 30);
  out.positions_max = part.count("positions_max", 2, 1U << 30); // a prompt and an answer
  out.weight_bytes = static_cast<std::uint64_t>(part.number("weight_bytes", 0, 9e15));
  out.kv_bytes_per_token = part.number("kv_bytes_per_token", 1, 1e12);
}

profile read(std::string_view text, const std::string& file) {
  const auto parsed = model::parse_json(text, file, bytes_max);
  refuse_repeated(text, file);
  const json_reader top(parsed, file);
  if (top.required_text("format") != format_name)
    top.fail("format",
             "must be " + model::in_quotes(format_name) + ", not " + model::in_quotes(top.required_text("format")));
  refuse_others(top, {"format", "name", "device", "source", "model", "kv_blocks", "start_ms", "step", "attention",
                      "link", "calibration", "assumptions"});
  profile out;
  out.name = line_of(top, "name");
  out.device = line_of(top, "device");
  out.source = top.required_text("source");
  read_model(top.required_object("model"), out);
  out.kv_blocks = top.count("kv_blocks", 1, 1U << 30);
  out.start_ms = top.number("start_ms", 0, 1e9);
  const auto step = top.required_object("step");
  refuse_others(step, {"overhead_us", "per_decode_us", "per_copy_us", "linear", "logits", "spread"});
  out.overhead_us = step.number("overhead_us", 0, us_max);
  out.per_decode_us = step.number("per_decode_us", 0, us_max);
  out.per_copy_us = step.number("per_copy_us", 0, us_max);
  out.linear = table_of(step, "linear", true);
  out.logits = table_of(step, "logits", false);
  out.spread = spread_of(step);
  const auto attention = top.required_object("attention");
  refuse_others(attention, {"kv_bytes_per_second", "kv", "flops_per_pair", "flops_per_second"});
  out.kv_bytes_per_second = attention.number("kv_bytes_per_second", least_rate, most);
  out.kv = table_of(attention, "kv", false);
  out.flops_per_pair = attention.number("flops_per_pair", 0, most);
  out.flops_per_second = attention.number("flops_per_second", least_rate, most);
  const auto link = top.required_object("link");
  refuse_others(link,
                {"bytes_per_second", "latency_us", "overhead_us", "device_bytes_per_second", "host_bytes_per_second"});
  out.link.bytes_per_second = link.number("bytes_per_second", least_rate, most);
  out.link.latency_us = link.number("latency_us", 0, us_max);
  out.link.overhead_us = link.number("overhead_us", 0, us_max);
  if (link.fields().contains("device_bytes_per_second"))
    out.link.device_bytes_per_second = link.number("device_bytes_per_second", out.link.bytes_per_second, most);
  if (link.fields().contains("host_bytes_per_second"))
    out.link.host_bytes_per_second = link.number("host_bytes_per_second", least_rate, most);
  out.calibration = calibration_of(top, file);
  out.assumptions = assumptions_of(top);
  return out;
}

std::string quoted(const std::string& text) { return json::serialize(json::value(text)); }

// The shortest text that reads back as the same number.
std::string spelt(double value) {
  std::array<char, 40> text{};
  const auto whole = std::abs(value) < 9e15 && value == std::trunc(value);
  const auto end = whole ? std::to_chars(text.data(), text.data() + text.size(), static_cast<std::int64_t>(value)).ptr
                         : std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string spelt(const step_table& table) {
  std::string out = "[";
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    out += i == 0 ? "\n      [" : ",\n      [";
    out += std::to_string(table.points[i].count) + ", " + spelt(table.points[i].us) + "]";
  }
  return out + (table.points.empty() ? "]" : "\n    ]");
}

std::string spelt(const step_spread& spread) {
  if (spread.factors.empty()) return {};
  std::string out = ",\n    \"spread\": {\"kept\": " + spelt(spread.kept) + ", \"factors\": [";
  for (std::size_t i = 0; i < spread.factors.size(); ++i) out += (i == 0 ? "" : ", ") + spelt(spread.factors[i]);
  return out + "]}";
}

} // namespace

protocols::expected<profile, profile_error> parse_profile(std::string_view text, const std::string& file) {
  try {
    return read(text, file);
  } catch (const std::exception& failure) {
    return protocols::unexpected(profile_error{failure.what()});
  }
}

std::string to_json(const profile& p) {
  auto out =
      "{\n  \"format\": " + quoted(std::string(format_name)) + ",\n  \"name\": " + quoted(p.name) +
      ",\n  \"device\": " + quoted(p.device) + ",\n  \"source\": " + quoted(p.source) +
      ",\n  \"model\": {\n    \"name\": " + quoted(p.model) + ",\n    \"layers\": " + std::to_string(p.layers) +
      ",\n    \"vocabulary\": " + std::to_string(p.vocabulary) +
      ",\n    \"positions_max\": " + std::to_string(p.positions_max) +
      ",\n    \"weight_bytes\": " + std::to_string(p.weight_bytes) +
      ",\n    \"kv_bytes_per_token\": " + spelt(p.kv_bytes_per_token) +
      "\n  },\n  \"kv_blocks\": " + std::to_string(p.kv_blocks) + ",\n  \"start_ms\": " + spelt(p.start_ms) +
      ",\n  \"step\": {\n    \"overhead_us\": " + spelt(p.overhead_us) +
      ",\n    \"per_decode_us\": " + spelt(p.per_decode_us) + ",\n    \"per_copy_us\": " + spelt(p.per_copy_us) +
      ",\n    \"linear\": " + spelt(p.linear) + ",\n    \"logits\": " + spelt(p.logits) + spelt(p.spread) +
      "\n  },\n  \"attention\": {\n    \"kv_bytes_per_second\": " + spelt(p.kv_bytes_per_second) +
      (p.kv.points.empty() ? "" : ",\n    \"kv\": " + spelt(p.kv)) +
      ",\n    \"flops_per_pair\": " + spelt(p.flops_per_pair) +
      ",\n    \"flops_per_second\": " + spelt(p.flops_per_second) +
      "\n  },\n  \"link\": {\n    \"bytes_per_second\": " + spelt(p.link.bytes_per_second) +
      ",\n    \"latency_us\": " + spelt(p.link.latency_us) + ",\n    \"overhead_us\": " + spelt(p.link.overhead_us) +
      (p.link.device_bytes_per_second == 0
           ? ""
           : ",\n    \"device_bytes_per_second\": " + spelt(p.link.device_bytes_per_second)) +
      (p.link.host_bytes_per_second == 0 ? ""
                                         : ",\n    \"host_bytes_per_second\": " + spelt(p.link.host_bytes_per_second)) +
      "\n  },\n  \"calibration\": [";
  for (std::size_t i = 0; i < p.calibration.size(); ++i) {
    const auto& c = p.calibration[i];
    out += std::string(i == 0 ? "\n" : ",\n") + "    {\"field\": " + quoted(c.field) +
           ", \"value\": " + spelt(c.value) + ", \"without\": " + spelt(c.without) +
           ",\n     \"reason\": " + quoted(c.reason) + "}";
  }
  out += p.calibration.empty() ? "],\n  \"assumptions\": [" : "\n  ],\n  \"assumptions\": [";
  for (std::size_t i = 0; i < p.assumptions.size(); ++i)
    out += std::string(i == 0 ? "\n    " : ",\n    ") + quoted(p.assumptions[i]);
  return out + (p.assumptions.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

} // namespace godwit::gpu::sim
