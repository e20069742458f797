#pragma once

#include <godwit/runtime/config/registry.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace godwit::runtime::config {

/// What stands for the value of a setting in help texts: "TIME", "bf16|f32", "tokens".
[[nodiscard]] std::string placeholder(const setting& s);

/// "--scheduler-queue-max", of a setting's name.
[[nodiscard]] std::string flag_of(const std::string& name);

/// Adds every setting of `registry` to `app` as a flag; values that are wrong are appended to `found`.
///
/// `App` is CLI::App; a template, so that this header needs no CLI11. Both arguments must outlive the parsing.
/// A bool becomes --name and --no-name. A setting with a flag of its own ("--port") has the one that is made of its
/// name, too ("--http-port"), which the help does not show. Flags are grouped by their TOML table in the help text.
/// `wanted`, if given, chooses among the settings: a command that shares a file with another need not have flags for
/// all that is in it.
template <class App>
void bind(registry& settings, App& app, problems& found, const std::function<bool(const setting&)>& wanted = {}) {
  const auto is_word = [](const std::string& text) { // CLI11 would make a number of any word, and throw otherwise
    std::string small = text;                        // as from a file or a variable
    for (auto& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    for (const auto* word : {"true", "on", "yes", "1", "false", "off", "no", "0"})
      if (small == word) return std::string();
    return '"' + text + "\" is not true or false";
  };
  const auto put_by = [&settings, &found](const setting& s, const std::string& flag) {
    return [&settings, &found, name = s.name, flag](const std::string& text) {
      if (auto wrong = settings.set(name, text, {source::flag, flag})) found.push_back(*wrong);
    };
  };
  const auto add_word = [&](const setting& s, const std::string& flag, bool yes) {
    const auto told = [put = put_by(s, flag), yes](std::int64_t n) { put((n > 0) == yes ? "true" : "false"); };
    return app.add_flag_function(flag, std::function<void(std::int64_t)>(told), s.declared.doc)->check(is_word);
  };
  const auto no = [](const std::string& flag) { return "--no-" + flag.substr(2); };
  for (const auto& s : settings.settings()) {
    if (wanted && !wanted(s)) continue;
    const auto dot = s.name.find_last_of('.');
    const auto group = dot == std::string::npos ? std::string("Settings") : "Settings: " + s.name.substr(0, dot);
    if (s.kind == value_kind::boolean) {
      // Not two names of one flag, of which CLI11's help shows that the second is "{false}", whatever the default.
      add_word(s, s.flag, true)->option_text("or " + no(s.flag) + " [" + s.default_text + "]")->group(group);
      add_word(s, no(s.flag), false)->group("");
    } else {
      app.add_option_function(s.flag, std::function<void(const std::string&)>(put_by(s, s.flag)), s.declared.doc)
          ->default_str(s.default_text)
          ->type_name(placeholder(s))
          ->group(group);
    }
  }
  for (const auto& s : settings.settings()) { // once all have their own
    const auto full = flag_of(s.name);
    if ((wanted && !wanted(s)) || full == s.flag || app.get_option_no_throw(full) != nullptr) continue;
    if (s.kind == value_kind::boolean) {
      add_word(s, full, true)->group("");
      add_word(s, no(full), false)->group("");
    } else {
      app.add_option_function(full, std::function<void(const std::string&)>(put_by(s, full)), s.declared.doc)
          ->group("");
    }
  }
}

} // namespace godwit::runtime::config
