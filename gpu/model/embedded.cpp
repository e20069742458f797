#include <godwit/gpu/model/file_source.hpp>

#ifdef GODWIT_EMBEDDED_MODEL

#include <array>

extern "C" {
#define GODWIT_EMBEDDED_FILE(symbol)                                                                                   \
  extern const std::byte symbol##_begin[];                                                                             \
  extern const std::byte symbol##_end[];
GODWIT_EMBEDDED_FILE(godwit_default_config)
GODWIT_EMBEDDED_FILE(godwit_default_generation_config)
GODWIT_EMBEDDED_FILE(godwit_default_tokenizer)
GODWIT_EMBEDDED_FILE(godwit_default_tokenizer_config)
GODWIT_EMBEDDED_FILE(godwit_default_model)
#undef GODWIT_EMBEDDED_FILE
}

namespace godwit::gpu::model {

namespace {

struct embedded_file {
  std::string_view name;
  const std::byte* begin;
  const std::byte* end;
};

class embedded_source : public file_source {
public:
  const std::string& name() const noexcept override { return name_; }

  std::optional<std::span<const std::byte>> find(std::string_view file) const override {
    const std::array files{
        embedded_file{"config.json", godwit_default_config_begin, godwit_default_config_end},
        embedded_file{"generation_config.json", godwit_default_generation_config_begin,
                      godwit_default_generation_config_end},
        embedded_file{"tokenizer.json", godwit_default_tokenizer_begin, godwit_default_tokenizer_end},
        embedded_file{"tokenizer_config.json", godwit_default_tokenizer_config_begin,
                      godwit_default_tokenizer_config_end},
        embedded_file{"model.safetensors", godwit_default_model_begin, godwit_default_model_end}};
    for (const auto& one : files)
      if (one.name == file) return std::span(one.begin, one.end);
    return std::nullopt;
  }

private:
  std::string name_ = "default";
};

} // namespace

std::shared_ptr<const file_source> embedded_model() { return std::make_shared<embedded_source>(); }

} // namespace godwit::gpu::model

#else

namespace godwit::gpu::model {

std::shared_ptr<const file_source> embedded_model() { return nullptr; }

} // namespace godwit::gpu::model

#endif
