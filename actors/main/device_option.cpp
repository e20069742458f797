#include "main/device_option.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace godwit::main {

namespace {

template <class Choice> using named = std::pair<std::string_view, Choice>;

constexpr std::array<named<device_choice>, 3> device_names{
    {{"auto", device_choice::automatic}, {"cpu", device_choice::cpu}, {"cuda", device_choice::cuda}}};

using gpu::model::rounding;
constexpr std::array<named<rounding>, 5> rounding_names{{{"none", rounding::none},
                                                         {"int8", rounding::int8},
                                                         {"int4", rounding::int4},
                                                         {"q8_0", rounding::q8_0},
                                                         {"q4_0", rounding::q4_0}}};

/// An option that is one of some words.
template <const auto& Names, class Choice>
void add_choice(CLI::App& to, const std::string& flag, Choice& chosen, const std::string& doc, const char* type) {
  const auto* const usual = std::ranges::find(Names, chosen, &named<Choice>::second);
  const auto one_of_them = [](std::string& name) {
    const auto* const found = std::ranges::find(Names, name, &named<Choice>::first);
    if (found != Names.end()) {
      name = std::to_string(static_cast<int>(found->second));
      return std::string{};
    }
    std::string all;
    for (const auto& [one, meant] : Names) all += (all.empty() ? "" : ", ") + std::string(one);
    return '"' + name + "\" is not one of " + all;
  };
  to.add_option(flag, chosen, doc)
      ->transform(CLI::Validator(one_of_them, ""))
      ->type_name(type)
      ->default_str(std::string(usual->first));
}

} // namespace

void add_device_option(CLI::App& to, device_choice& chosen, const std::string& doc) {
  add_choice<device_names>(to, "--device", chosen, doc, "DEVICE");
}

void add_quantization_option(CLI::App& to, rounding& chosen) {
  add_choice<rounding_names>(to, "--quantization", chosen,
                             "What the matrices of the model's layers are rounded to: none, int8, int4, q8_0 or q4_0",
                             "WORD");
}

} // namespace godwit::main
