#include "main/usage_error.hpp"

#include <godwit/runtime/config/nearest.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace godwit::main {

namespace {

/// The subcommand that was chosen last, or the program.
const CLI::App& chosen(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : chosen(*below.front());
}

std::string path_of(const CLI::App& command) {
  const auto* parent = command.get_parent();
  return parent == nullptr ? "godwit" : path_of(*parent) + " " + command.get_name();
}

std::vector<std::string> known_names(const CLI::App& command) {
  std::vector<std::string> out;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  for (const auto* below : command.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(below->get_name());
  return out;
}

struct foreign_name {
  std::string_view theirs;
  std::string_view ours;
};

/// What servers of this kind are often told, and is called otherwise here (vLLM, llama.cpp).
constexpr std::array foreign_names{
    foreign_name{"--host", "--listen HOST:PORT"},
    foreign_name{"--port", "--listen HOST:PORT"},
    foreign_name{"-m", "a folder as first argument"},
    foreign_name{"--model", "a folder as first argument"},
    foreign_name{"--served-model-name", "--model-name"},
    foreign_name{"--alias", "--model-name"},
    foreign_name{"--max-model-len", "--model-context-max"},
    foreign_name{"--ctx-size", "--model-context-max"},
    foreign_name{"-c", "--model-context-max"},
    foreign_name{"--max-num-seqs", "--llumlet-sequences-max"},
    foreign_name{"--parallel", "--llumlet-sequences-max"},
    foreign_name{"--max-num-batched-tokens", "--llumlet-step-tokens-max"},
    foreign_name{"--enable-prefix-caching", "--llumlet-prefix-caching"},
    foreign_name{"--kv-cache-dtype", "--instances-kv-type"},
    foreign_name{"--tensor-parallel-size", "--tensor-parallel"},
    foreign_name{"--pipeline-parallel-size", "--pipeline-parallel"},
    foreign_name{"--data-parallel-size", "--instances"},
    foreign_name{"--api-key", "--api-key-file FILE"},
    foreign_name{"--ssl-certfile", "--tls-cert"},
    foreign_name{"--ssl-keyfile", "--tls-key"},
    foreign_name{"--ssl-cert-file", "--tls-cert"},
    foreign_name{"--ssl-key-file", "--tls-key"},
    foreign_name{"--allowed-origins", "--cors-allowed-origins"},
};

bool takes_model_folder(const CLI::App& command) {
  const auto options = command.get_options();
  return std::ranges::any_of(
      options, [](const CLI::Option* o) { return o->get_positional() && o->get_type_name() == "MODEL_DIR"; });
}

/// What an option that takes a number takes, by the name of its type.
std::string_view number_of(const CLI::Option* option) {
  const auto type = option == nullptr ? std::string() : option->get_type_name();
  const auto word = type.substr(0, type.find_first_of(": "));
  if (word == "S" || word == "SECONDS") return "a number of seconds that it may be";
  if (word == "MS") return "a number of milliseconds that it may be";
  return "a number that it may be";
}

/// Empty: nobody calls anything so that the command has.
std::string our_name(const CLI::App& command, std::string_view theirs, const std::vector<std::string>& known) {
  const auto* const found =
      std::ranges::find_if(foreign_names, [&](const foreign_name& n) { return n.theirs == theirs; });
  if (found == foreign_names.end()) return {};
  const auto flag = found->ours.substr(0, found->ours.find(' '));
  const bool has = flag.starts_with("--") ? std::ranges::find(known, flag) != known.end() : takes_model_folder(command);
  return has ? std::string(found->ours) : std::string();
}

} // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto& command = chosen(app);
  const auto help = "; see '" + path_of(command) + " --help'";
  const bool too_many = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool too_few = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (const auto extras = app.remaining(true); (too_many || too_few) && !extras.empty()) {
    const auto& word = extras.front();
    const auto name = word.substr(0, word.find('='));
    const auto known = known_names(command);
    if (const auto ours = our_name(command, name, known); !ours.empty())
      return "unknown flag " + name + "; here it is " + ours + help;
    const bool wants_command = !command.get_subcommands([](const CLI::App*) { return true; }).empty();
    const auto near = runtime::config::nearest(name, known);
    const auto wrong = name.starts_with("-") ? "unknown flag " + name
                       : wants_command       ? "no command is called '" + word + "'"
                                             : "unexpected argument " + name;
    return wrong + (near.empty() ? help : "; did you mean " + near + "?");
  }
  // What the parser itself says of a word that is no number, and of one that is missing.
  const std::string_view what = error.what();
  constexpr std::string_view no_number = "Could not convert: ", missing = " is required";
  if (const auto at = what.find(" = "); what.starts_with(no_number) && at != std::string_view::npos) {
    const auto name = what.substr(no_number.size(), at - no_number.size());
    const auto* const option = command.get_option_no_throw(std::string(name));
    const bool is_flag = option != nullptr && option->get_items_expected_max() == 0;
    const auto wrong = is_flag ? std::string("neither true nor false") : "not " + std::string(number_of(option));
    return std::string(name) + ": '" + std::string(what.substr(at + 3)) + "' is " + wrong + help;
  }
  if (too_few && what.ends_with(missing)) {
    const std::string name(what.substr(0, what.size() - missing.size()));
    const auto* const option = command.get_option_no_throw(name);
    if (option != nullptr && !option->get_description().empty())
      return name + " is missing: " + option->get_description() + help;
  }
  return std::string(what) + help;
}

} // namespace godwit::main
