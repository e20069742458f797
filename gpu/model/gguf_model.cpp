#include "model/gguf_model.hpp"

#include "model/json_reader.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

namespace godwit::gpu::model {

namespace {

constexpr std::uint32_t parts_max = 4096;
constexpr std::string_view ending = ".gguf";

/// "-00001-of-00003"
struct part_number {
  std::uint32_t number = 0, count = 0;
  static constexpr std::size_t size = 15;
};
std::optional<part_number> part_of(std::string_view stem) {
  if (stem.size() <= part_number::size) return std::nullopt;
  const auto tail = stem.substr(stem.size() - part_number::size);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  const auto digits = [](std::string_view text) -> std::optional<std::uint32_t> {
    std::uint32_t read = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(read) : std::nullopt;
  };
  const auto number = digits(tail.substr(1, 5)), count = digits(tail.substr(10, 5));
  return number && count ? std::optional(part_number{*number, *count}) : std::nullopt;
}

std::string name_of_part(std::string_view name, std::uint32_t number, std::uint32_t count) {
  std::array<char, 32> tail{};
  (void)std::snprintf(tail.data(), tail.size(), "-%05u-of-%05u", number, count);
  return std::string(name) + tail.data() + std::string(ending);
}

gguf_file open_part(const file_source& files, const std::string& name) {
  const auto bytes = files.find(name);
  if (!bytes) throw model_error(in_quotes(name), "is not there");
  return {*bytes, name};
}

} // namespace

bool is_later_part(std::string_view file) noexcept {
  if (file.ends_with(ending)) file.remove_suffix(ending.size());
  const auto part = part_of(file);
  return part && part->number > 1;
}

gguf_model::gguf_model(std::shared_ptr<const file_source> files, const std::string& file) : files_(std::move(files)) {
  parts_.push_back(open_part(*files_, file));
  const auto stem = std::string_view(file).substr(0, file.size() - (file.ends_with(ending) ? ending.size() : 0));
  name_ = stem;
  const auto count = head().integer("split.count").value_or(1);
  if (count == 1) return;
  if (count < 1 || count > parts_max) head().fail("split.count", "must be from 1 to " + std::to_string(parts_max));
  const auto part = part_of(stem);
  if (!part || part->count != count)
    head().fail("split.count", "says that there are " + std::to_string(count) + " files, whose names should end in " +
                                   in_quotes(name_of_part("", 1, static_cast<std::uint32_t>(count))) + " and so on");
  name_ = stem.substr(0, stem.size() - part_number::size);
  if (part->number != 1)
    throw model_error(file, "is one of several files; give the first, " +
                                in_quotes(name_of_part(name_, 1, static_cast<std::uint32_t>(count))));
  for (std::uint32_t number = 2; number <= count; ++number) {
    parts_.push_back(open_part(*files_, name_of_part(name_, number, static_cast<std::uint32_t>(count))));
    const auto& one = parts_.back();
    if (one.integer("split.no") != number - 1 || one.integer("split.count") != count)
      one.fail("split.no", "and \"split.count\" do not go with the file's name");
  }
  std::map<std::string_view, std::string_view> where;
  for (const auto& one : parts_)
    for (const auto& [name, tensor] : one.tensors())
      if (const auto [found, first] = where.emplace(name, one.name()); !first)
        one.fail(name, "is also in " + std::string(found->second));
}

const gguf_tensor* gguf_model::find(std::string_view tensor) const noexcept {
  for (const auto& part : parts_)
    if (const auto* found = part.find(tensor)) return found;
  return nullptr;
}

std::shared_ptr<const file_source> files_of_gguf(const gguf_model& model) {
  const auto bytes = [](std::string_view text) {
    const auto all = std::as_bytes(std::span(text));
    return std::vector<std::byte>(all.begin(), all.end());
  };
  std::map<std::string, std::vector<std::byte>, std::less<>> files;
  files["config.json"] = bytes(gguf_config_json(model));
  files["generation_config.json"] = bytes(gguf_generation_config_json(model.head()));
  files["tokenizer.json"] = bytes(gguf_tokenizer_json(model.head()));
  files["tokenizer_config.json"] = bytes(gguf_tokenizer_config_json(model.head()));
  return memory_source(model.name(), std::move(files));
}

} // namespace godwit::gpu::model
