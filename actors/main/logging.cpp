#include "main/logging.hpp"

#include <godwit/runtime/config/nearest.hpp>
#include <godwit/runtime/log/file_backend.hpp>

#include <array>
#include <iostream>
#include <string_view>
#include <utility>
#include <variant>

namespace godwit::main {

namespace log = runtime::log;

namespace {

constexpr std::array<std::string_view, 16> components{
    "device", "fabric",    "frontend", "http",    "instance",    "llumlet", "load",      "log",
    "member", "migration", "node",     "process", "provisioner", "runtime", "scheduler", "trace"};

} // namespace

std::string log_components() {
  std::string out;
  for (const auto name : components) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

std::string wrong_component(const log::level_filter& filter) {
  const auto name = filter.unknown(components);
  if (name.empty()) return {};
  const auto near = runtime::config::nearest(name, {components.begin(), components.end()});
  return "nothing that logs is called \"" + name + '"' +
         (near.empty() ? "; there are " + log_components() : "; did you mean " + near + "?");
}

protocols::expected<log::logger, std::string> open_log(const serve_settings& settings) {
  auto filter = log::level_filter::parse(settings.log.levels);
  if (auto* wrong = std::get_if<log::level_error>(&filter))
    return protocols::unexpected("log.levels: " + wrong->message);
  log::file_settings file;
  file.file = settings.log.file;
  file.style = settings.log.format == log_format::json ? log::format::json : log::format::text;
  auto backend = log::open_file(file);
  if (!backend) return protocols::unexpected("log.file: " + backend.error().message);
  return log::logger(*std::move(backend), std::get<log::level_filter>(std::move(filter)));
}

life_lines::life_lines(const serve_settings& settings, const log::logger& log)
    : plain_(settings.log.format != log_format::json || !settings.log.file.empty()),
      logged_(settings.log.format == log_format::json || !settings.log.file.empty()), log_(log.component("process")) {}

void life_lines::tell(const std::string& line) const { tell(line, {}); }

void life_lines::tell(const std::string& line, const std::vector<log::field>& about) const {
  if (plain_) std::cout << line << std::endl;
  if (!logged_) return;
  auto to = log_;
  for (const auto& field : about) to = to.with(field.key, field.value);
  to.info("{}", line);
}

void life_lines::warn(const std::string& line) const {
  if (plain_) std::cerr << "godwit: " << line << '\n';
  if (logged_) log_.warning("{}", line);
}

void reopen_log(const log::logger& log) {
  const auto about = log.component("log");
  if (const auto why_not = log.reopen(); why_not.empty())
    about.info("SIGHUP: the log file is opened anew");
  else
    about.warning("SIGHUP: {}", why_not);
}

} // namespace godwit::main
