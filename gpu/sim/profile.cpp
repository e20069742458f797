#include <godwit/gpu/sim/profile.hpp>

#include "model/json_reader.hpp"
#include "sim/embedded_profiles.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace godwit::gpu::sim {

namespace {

protocols::expected<profile, profile_error> read_file(const std::string& path) {
  const auto refuse = [&](const char* why) { return protocols::unexpected(profile_error{path + ": " + why}); };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return refuse("there is no such file");
  if (!std::filesystem::is_regular_file(status)) return refuse("is not a file");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return refuse("cannot be read");
  return parse_profile(text.str(), path);
}

} // namespace

std::chrono::nanoseconds profile_link::transfer_time(double bytes) const {
  const auto us = overhead_us + latency_us + bytes / bytes_per_second * 1e6;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1000));
}

std::vector<std::string> profile_names() {
  std::vector<std::string> out;
  for (const auto& one : embedded_profiles()) out.emplace_back(one.name);
  return out;
}

protocols::expected<profile, profile_error> open_profile(const std::string& name_or_path) {
  for (const auto& one : embedded_profiles())
    if (one.name == name_or_path) return parse_profile(one.text, std::string(one.name));
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) return read_file(name_or_path);
  std::string known;
  for (const auto& one : embedded_profiles()) known += (known.empty() ? "" : ", ") + std::string(one.name);
  return protocols::unexpected(profile_error{"there is no profile " + model::in_quotes(name_or_path) + "; known are " +
                                             known + ", and paths of files that end in .json"});
}

executor_info executor_info_of(const profile& what) {
  executor_info out;
  out.device = what.device;
  out.layers = what.layers;
  out.vocabulary = what.vocabulary;
  out.positions_max = what.positions_max;
  out.blocks = what.kv_blocks;
  out.block_bytes = static_cast<std::uint64_t>(what.block_bytes());
  out.weight_bytes = what.weight_bytes;
  return out;
}

} // namespace godwit::gpu::sim
