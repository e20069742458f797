#include <godwit/protocols/policy/headroom.hpp>

#include <algorithm>
#include <charconv>

namespace godwit::protocols {

namespace {

constexpr std::size_t levels_max = 16;

std::string_view trimmed(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

expected<execution_level, std::string> parse_level(std::string_view text) {
  const auto quoted = [](std::string_view what) { return "\"" + std::string(what) + "\""; };
  const auto equals = text.find('=');
  execution_level level;
  level.name = trimmed(text.substr(0, equals));
  if (!is_name(level.name))
    return unexpected(quoted(trimmed(text)) + ": an execution priority has a name of letters, digits, _ and -");
  if (equals == std::string_view::npos)
    return unexpected(quoted(level.name) + " needs its headroom: " + level.name + "=BLOCKS or " + level.name + "=auto");
  const auto headroom = trimmed(text.substr(equals + 1));
  if (headroom == "auto") return level;
  std::uint32_t blocks = 0;
  const auto [end, error] = std::from_chars(headroom.data(), headroom.data() + headroom.size(), blocks);
  if (error != std::errc{} || end != headroom.data() + headroom.size())
    return unexpected("the headroom of " + quoted(level.name) + " is a number of blocks or auto, not " +
                      quoted(headroom));
  level.headroom = blocks;
  return level;
}

} // namespace

expected<std::vector<execution_level>, std::string> parse_execution_levels(std::string_view text) {
  std::vector<execution_level> levels;
  for (std::size_t from = 0; from <= text.size();) {
    const auto comma = std::min(text.find(',', from), text.size());
    auto level = parse_level(text.substr(from, comma - from));
    if (!level) return unexpected(level.error());
    if (std::ranges::find(levels, level->name, &execution_level::name) != levels.end())
      return unexpected("the execution priority \"" + level->name + "\" is there twice");
    if (levels.size() == levels_max)
      return unexpected("more than " + std::to_string(levels_max) + " execution priorities");
    levels.push_back(std::move(*level));
    from = comma + 1;
  }
  return levels;
}

std::uint64_t headroom_of(const std::vector<execution_level>& levels, const std::vector<std::uint32_t>& running,
                          std::uint32_t profiled) noexcept {
  if (levels.empty()) return 0;
  std::uint64_t sum = 0;
  bool last_runs = false;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i] == 0) continue;
    if (i + 1 < levels.size())
      sum += levels[i].headroom.value_or(profiled);
    else
      last_runs = true;
  }
  return sum + (last_runs ? levels.back().headroom.value_or(profiled) : 0);
}

headroom_profile::headroom_profile(std::uint32_t blocks_total, std::uint32_t sequences_max,
                                   std::uint32_t sequence_blocks_max, double tolerance)
    : total_(blocks_total), tolerance_(tolerance) {
  if (blocks_total == 0 || sequences_max == 0 || sequence_blocks_max == 0) return;
  each_ = std::clamp<std::uint32_t>(blocks_total / sequences_max, 1, sequence_blocks_max);
  sequences_max_ = std::min(sequences_max, blocks_total / each_);
}

std::optional<profile_point> headroom_profile::next() const {
  if (sequences_max_ == 0) return std::nullopt;
  if (good_ == 0) return point(1);
  if (!bad_)
    return good_ == sequences_max_ ? std::optional<profile_point>{} : point(std::min(2 * good_, sequences_max_));
  return *bad_ - good_ <= 1 ? std::optional<profile_point>{} : point(good_ + (*bad_ - good_) / 2);
}

void headroom_profile::took(std::int64_t step_ns) {
  const auto asked = next();
  if (!asked) return;
  if (good_ == 0) unloaded_ns_ = step_ns;
  if (good_ == 0 || static_cast<double>(step_ns) <= static_cast<double>(unloaded_ns_) * (1 + tolerance_))
    good_ = asked->sequences;
  else
    bad_ = asked->sequences;
}

std::uint32_t headroom_profile::harmless() const noexcept {
  if (sequences_max_ > 0 && good_ == sequences_max_) return total_; // no batch is larger
  return good_ * each_;
}

} // namespace godwit::protocols
