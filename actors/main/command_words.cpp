#include "main/command_words.hpp"

#include <utility>

namespace godwit::main {

std::vector<std::string> with_empty_values(const CLI::App& app, std::vector<std::string> words) {
  std::vector<std::string> out;
  const auto* command = &app;
  bool options = true;
  for (auto& word : words) {
    const auto named = command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (options && !named.empty()) command = named.front();
    options = options && word != "--";
    const bool empty = options && word.starts_with("--") && word.find('=') == word.size() - 1;
    const auto* option = empty ? command->get_option_no_throw(word.substr(0, word.size() - 1)) : nullptr;
    if (option != nullptr && option->get_items_expected_max() > 0) {
      word.pop_back();
      out.push_back(std::move(word));
      out.emplace_back();
    } else {
      out.push_back(std::move(word));
    }
  }
  return out;
}

} // namespace godwit::main
