#pragma once

#include <godwit/runtime/config/setting.hpp>

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>

namespace godwit::runtime::config {

/// What a user did wrong, one line each, naming where it stands and the mend:
/// "godwit.toml:12: unknown setting scheduler.queue_mx; did you mean scheduler.queue_max?"
using problems = std::vector<std::string>;

/// Every setting of a program, each declared once.
///
/// A program has flags, a configuration file, environment variables and a reference page, which drift apart when each
/// is written by hand. Here a declaration binds a variable to a name, and the rest follows from it:
///
///     runtime::config::registry settings;
///     settings.add("scheduler.queue_max", s.queue_max, {.doc = "Requests that may wait.", .unit = "requests", .min =
///     1});
///
/// gives the flag --scheduler-queue-max, the key queue_max in [scheduler], GODWIT_SCHEDULER_QUEUE_MAX, a line of
/// `print_config` and a row of `reference_markdown`. The default is the variable's value at that moment.
/// A flag beats the environment, which beats the file, which beats the default, in whatever order they are loaded.
///
/// A wrong declaration (a name twice, a default out of its bounds) is a bug of ours: std::logic_error.
/// A wrong value is the user's: it is reported and the variable keeps its value.
/// The variables must outlive the registry's use. Not thread-safe.
class registry {
public:
  /// Integers, floating point, bool, std::string, std::vector<std::string>, std::chrono durations ("200ms", "2s",
  /// "1h30m"), and integers with the unit "bytes" ("512MiB", "2GB", "4096").
  template <class T> registry& add(std::string name, T& variable, options declared) {
    auto s = setting{};
    s.name = std::move(name);
    s.kind = binding<T>::kind;
    s.declared = std::move(declared);
    s.get = [&variable] { return binding<T>::to_value(variable); };
    s.put = [&variable](const value& v, bool check) -> std::optional<std::string> {
      auto x = binding<T>::from_value(v);
      if (!x) return "does not fit the setting's type";
      if (!check) variable = std::move(*x);
      return std::nullopt;
    };
    return declare(std::move(s));
  }

  /// An enumeration, by the names of its values.
  template <class E>
  registry& add(std::string name, E& variable, std::initializer_list<std::pair<std::string, E>> names,
                options declared) {
    auto table = std::vector<std::pair<std::string, E>>(names);
    auto s = setting{};
    s.name = std::move(name);
    s.kind = value_kind::choice;
    s.declared = std::move(declared);
    for (const auto& entry : table) s.choices.push_back(entry.first);
    s.get = [&variable, table]() -> value {
      for (const auto& [text, e] : table)
        if (e == variable) return text;
      return std::string{};
    };
    s.put = [&variable, table](const value& v, bool check) -> std::optional<std::string> {
      for (const auto& [text, e] : table)
        if (const auto* x = std::get_if<std::string>(&v); x != nullptr && *x == text) {
          if (!check) variable = e;
          return std::nullopt;
        }
      return "is not one of the setting's names";
    };
    return declare(std::move(s));
  }

  /// A rule between settings: returns what is wrong, or nothing. Checked by `validate`.
  registry& relate(std::function<std::optional<std::string>()> rule);
  /// A GODWIT_ variable that is not a setting, such as GODWIT_CONFIG.
  registry& allow_variable(std::string name);

  [[nodiscard]] problems load_file(const std::filesystem::path& path);
  /// `name` stands for the file in messages and origins.
  [[nodiscard]] problems load_toml(std::string_view text, const std::string& name);
  /// Reads the variables that begin with GODWIT_ and ignores the rest, and those that Kubernetes gives every container
  /// of a namespace in which a service is called "godwit" or "godwit-...": GODWIT_SERVICE_HOST, GODWIT_PORT_8000_TCP
  /// and the like. `main` passes its environment.
  [[nodiscard]] problems load_environment(std::span<const std::pair<std::string, std::string>> variables);
  /// One value by the setting's name. For flags: origin{source::flag, "--port"}.
  [[nodiscard]] std::optional<std::string> set(std::string_view name, std::string_view text, const origin& by);
  /// The rules between settings. Call it when everything is loaded.
  [[nodiscard]] problems validate() const;

  [[nodiscard]] const std::vector<setting>& settings() const noexcept { return settings_; }
  [[nodiscard]] const setting* find(std::string_view name) const noexcept;
  /// For "unknown flag --prot; did you mean --port?". Empty if nothing is near.
  [[nodiscard]] std::string nearest_flag(std::string_view flag) const;
  /// The value now, as a user would write it on a command line.
  [[nodiscard]] std::string text(const setting& s) const;

  /// TOML with each setting's doc, unit, bounds and origin as comments. Loading it gives the same values.
  [[nodiscard]] std::string print_config() const;
  /// The reference page: a table for each TOML table.
  [[nodiscard]] std::string reference_markdown() const;

private:
  registry& declare(setting s);
  setting* find_mutable(std::string_view name) noexcept;
  std::optional<std::string> assign(setting& s, const value& v, const origin& by);

  std::vector<setting> settings_;
  std::vector<std::function<std::optional<std::string>()>> rules_;
  std::vector<std::string> allowed_variables_;
};

} // namespace godwit::runtime::config
