#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/runtime/log/backend.hpp>

#include <spdlog/fmt/fmt.h>

#include <memory>
#include <string>
#include <utility>

namespace godwit::runtime::log {

/// Writes lines for one component, with the fields of its context. A value: cheap to copy, passed as an argument.
///
///     auto log = log::logger(backend, filter).component("http");
///     auto about = log.request(id);
///     about.info("dispatched to {}", instance);   // ... info http request=17 dispatched to 3
///
/// Arguments of a line below its component's level are not formatted. By agreement no line holds a prompt or an answer:
/// log sizes and ids. A logger made without a backend writes nothing.
class logger {
public:
  logger() = default;
  logger(std::shared_ptr<backend> to, level_filter filter);

  /// The same destination and fields under another name, at that name's level.
  [[nodiscard]] logger component(std::string name) const;
  /// Every line says request=ID.
  [[nodiscard]] logger request(protocols::request_id id) const { return with("request", std::to_string(id.value())); }
  [[nodiscard]] logger request(std::string id) const { return with("request", std::move(id)); }
  [[nodiscard]] logger with(std::string key, std::string value) const;

  [[nodiscard]] bool enabled(level l) const noexcept { return context_ && l >= context_->threshold && l != level::off; }

  template <class... Args> void trace(fmt::format_string<Args...> f, Args&&... args) const {
    write(level::trace, f, std::forward<Args>(args)...);
  }
  template <class... Args> void debug(fmt::format_string<Args...> f, Args&&... args) const {
    write(level::debug, f, std::forward<Args>(args)...);
  }
  template <class... Args> void info(fmt::format_string<Args...> f, Args&&... args) const {
    write(level::info, f, std::forward<Args>(args)...);
  }
  template <class... Args> void warning(fmt::format_string<Args...> f, Args&&... args) const {
    write(level::warning, f, std::forward<Args>(args)...);
  }
  template <class... Args> void error(fmt::format_string<Args...> f, Args&&... args) const {
    write(level::error, f, std::forward<Args>(args)...);
  }

  template <class... Args> void write(level l, fmt::format_string<Args...> f, Args&&... args) const {
    if (enabled(l)) write_text(l, fmt::format(f, std::forward<Args>(args)...));
  }
  void write_text(level l, std::string_view message) const;
  void flush() const;
  /// See backend::reopen.
  [[nodiscard]] std::string reopen() const;

private:
  struct context {
    std::shared_ptr<backend> to;
    std::shared_ptr<const level_filter> filter;
    std::string component;
    std::vector<field> fields;
    level threshold = level::off;
  };
  std::shared_ptr<const context> context_;
};

} // namespace godwit::runtime::log
