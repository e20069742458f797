#include "gpu/model/adapter_files.hpp"

#include "cpu/packing.hpp"
#include "model/adapter_names.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

namespace godwit::gpu::model::tests {

namespace {

float held_by(data_type type, float value) {
  std::byte stored[4];
  cpu::narrow(cpu::storage_of(type), value, stored);
  return cpu::widen(type, stored);
}

void put_values(std::vector<std::byte>& out, data_type type, const std::vector<float>& values) {
  for (const auto value : values) {
    std::byte stored[4];
    cpu::narrow(cpu::storage_of(type), value, stored);
    out.insert(out.end(), stored, stored + bytes_of(type));
  }
}

} // namespace

std::vector<double> made_adapter::added(std::uint32_t layer, projection which) const {
  const auto found = updates.find({layer, which});
  if (found == updates.end()) return {};
  const auto& [rank, a, b] = found->second;
  const double scale = alpha / (by_root ? std::sqrt(static_cast<double>(rank)) : rank);
  const auto inputs = a.size() / rank, outputs = b.size() / rank;
  std::vector<double> out(outputs * inputs);
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t i = 0; i < inputs; ++i)
      for (std::size_t r = 0; r < rank; ++r)
        out[o * inputs + i] += scale * static_cast<double>(b[o * rank + r]) * static_cast<double>(a[r * inputs + i]);
  return out;
}

std::string made_adapter::config_text() const {
  const auto rank = updates.empty() ? 1 : updates.begin()->second.rank;
  const bool differ = std::ranges::any_of(updates, [rank](const auto& one) { return one.second.rank != rank; });
  return R"({"peft_type": "LORA", "bias": "none", )" + more + (differ ? R"("rank_pattern": {"x": 1}, )" : "") +
         (by_root ? R"("use_rslora": true, )" : "") + R"("r": )" + std::to_string(rank) + R"(, "lora_alpha": )" +
         std::to_string(alpha) + "}";
}

std::vector<std::byte> made_adapter::tensors() const {
  std::string header = "{";
  std::vector<std::byte> data;
  const auto add = [&](const std::string& name, std::size_t rows, const std::vector<float>& values) {
    const auto first = data.size();
    put_values(data, type, values);
    const auto* const name_of_type = type == data_type::f32 ? "F32" : type == data_type::f16 ? "F16" : "BF16";
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":")" + name_of_type + R"(","shape":[)" +
              std::to_string(rows) + "," + std::to_string(values.size() / rows) + R"(],"data_offsets":[)" +
              std::to_string(first) + "," + std::to_string(data.size()) + "]}";
  };
  for (const auto& [place, one] : updates) {
    add(adapter_tensor(place.first, place.second, 'A'), one.rank, one.a);
    add(adapter_tensor(place.first, place.second, 'B'), one.b.size() / one.rank, one.b);
  }
  header += "}";
  std::vector<std::byte> out(8 + header.size() + data.size());
  const std::uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  std::memcpy(out.data() + 8, header.data(), header.size());
  std::ranges::copy(data, out.begin() + static_cast<std::ptrdiff_t>(8 + header.size()));
  return out;
}

void made_adapter::write(const std::filesystem::path& directory) const {
  std::filesystem::create_directories(directory);
  const auto bytes = tensors();
  std::ofstream(directory / adapter_tensors_file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::ofstream(directory / adapter_config_file) << config_text();
}

made_adapter random_adapter_of(const config& model, const std::vector<projection>& which, std::uint32_t rank,
                               unsigned seed, data_type type, bool ranks_differ) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  made_adapter out;
  out.type = type;
  out.alpha = rank; // as much as the matrices that it adds to, or it would hardly be seen
  std::uint32_t next = rank;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer)
    for (const auto one : which) {
      const auto [outputs, inputs] = shape_of(model, one);
      made_adapter::update update;
      update.rank = next;
      if (ranks_differ) ++next;
      const auto fill = [&](std::vector<float>& values, std::size_t count, double size) {
        values.resize(count);
        for (auto& value : values) value = held_by(type, normal(engine) * static_cast<float>(size));
      };
      fill(update.a, update.rank * inputs, 1 / std::sqrt(static_cast<double>(inputs)));
      fill(update.b, update.rank * outputs, 1 / std::sqrt(static_cast<double>(update.rank)));
      out.updates.emplace(std::pair{layer, one}, std::move(update));
    }
  return out;
}

} // namespace godwit::gpu::model::tests
