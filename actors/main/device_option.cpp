#include "main/device_option.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace godwit::main {

namespace {

constexpr std::array<std::pair<std::string_view, device_choice>, 3> device_names{
    {{"auto", device_choice::automatic}, {"cpu", device_choice::cpu}, {"cuda", device_choice::cuda}}};

} // namespace

void add_device_option(CLI::App& to, device_choice& chosen, const std::string& doc) {
  const auto* const usual = std::ranges::find(device_names, chosen, &decltype(device_names)::value_type::second);
  const auto one_of_them = [](std::string& name) {
    const auto* const found = std::ranges::find(device_names, name, &decltype(device_names)::value_type::first);
    if (found == device_names.end()) return '"' + name + "\" is not one of auto, cpu, cuda";
    name = std::to_string(static_cast<int>(found->second));
    return std::string{};
  };
  to.add_option("--device", chosen, doc)
      ->transform(CLI::Validator(one_of_them, ""))
      ->type_name("DEVICE")
      ->default_str(std::string(usual->first));
}

} // namespace godwit::main
