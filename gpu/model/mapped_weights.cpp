#include "model/json_reader.hpp"
#include "model/safetensors.hpp"
#include "model/text_map.hpp"

#include <boost/json/object.hpp>

#include <map>

namespace godwit::gpu::model {

namespace {

constexpr auto single_file = "model.safetensors";
constexpr auto index_file = "model.safetensors.index.json";
constexpr std::size_t index_bytes_max = 32U << 20U;
constexpr std::size_t shards_max = 4096;

class mapped_weights : public weights {
public:
  explicit mapped_weights(std::shared_ptr<const file_source> files) : files_(std::move(files)) {}

  const tensor_view* find(std::string_view name) const noexcept override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::uint64_t total_bytes() const noexcept override { return total_bytes_; }

  void add(named_tensor tensor) {
    if (!tensor.unsupported.empty()) return;
    total_bytes_ += tensor.view.bytes;
    tensors_.insert_or_assign(std::move(tensor.name), std::move(tensor.view));
  }

private:
  std::shared_ptr<const file_source> files_;
  text_map<tensor_view> tensors_;
  std::uint64_t total_bytes_ = 0;
};

/// Shard -> the tensors that the index expects there.
using shard_map = std::map<std::string, text_map<bool>, std::less<>>;

shard_map read_index(std::span<const std::byte> bytes) {
  const auto value = parse_json(as_text(bytes), index_file, index_bytes_max);
  const auto in = json_reader(value, index_file).required_object("weight_map");
  shard_map shards;
  for (const auto& field : in.fields()) {
    const std::string tensor(field.key().data(), field.key().size());
    const auto shard = in.required_text(tensor);
    shards[std::string(shard)].emplace(tensor, false);
    if (shards.size() > shards_max)
      throw model_error(index_file, "weight_map: names more than " + std::to_string(shards_max) + " files");
  }
  return shards;
}

} // namespace

std::shared_ptr<const weights> read_weights(std::shared_ptr<const file_source> files) {
  auto out = std::make_shared<mapped_weights>(files);
  if (const auto bytes = files->find(single_file)) {
    for (auto& tensor : read_safetensors(*bytes, single_file)) out->add(std::move(tensor));
    return out;
  }
  const auto index = files->find(index_file);
  if (!index)
    throw model_error(in_quotes(files->name()),
                      std::string("has neither ") + single_file + " nor " + index_file + "; only safetensors are read");
  for (auto& [shard, expected] : read_index(*index)) {
    const auto bytes = files->find(shard);
    if (!bytes) throw model_error(index_file, "weight_map: there is no file " + in_quotes(shard));
    for (auto& tensor : read_safetensors(*bytes, in_quotes(shard))) {
      const auto wanted = expected.find(tensor.name);
      if (wanted == expected.end()) continue;
      wanted->second = true;
      out->add(std::move(tensor));
    }
    for (const auto& [tensor, found] : expected)
      if (!found) throw model_error(index_file, "weight_map: " + in_quotes(tensor) + " is not in " + in_quotes(shard));
  }
  return out;
}

} // namespace godwit::gpu::model
