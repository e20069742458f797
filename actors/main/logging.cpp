#include "main/logging.hpp"

#include <godwit/runtime/log/file_backend.hpp>

#include <utility>
#include <variant>

namespace godwit::main {

namespace log = runtime::log;

protocols::expected<log::logger, std::string> open_log(const serve_settings& settings) {
  auto filter = log::level_filter::parse(settings.log.levels);
  if (auto* wrong = std::get_if<log::level_error>(&filter))
    return protocols::unexpected("log.levels: " + wrong->message);
  log::file_settings file;
  file.file = settings.log.file;
  file.style = settings.log.format == log_format::json ? log::format::json : log::format::text;
  auto backend = log::open_file(file);
  if (auto* wrong = std::get_if<log::open_error>(&backend)) return protocols::unexpected("log.file: " + wrong->message);
  return log::logger(std::get<std::shared_ptr<log::backend>>(std::move(backend)),
                     std::get<log::level_filter>(std::move(filter)));
}

void reopen_log(const log::logger& log) {
  const auto about = log.component("log");
  if (const auto why_not = log.reopen(); why_not.empty())
    about.info("SIGHUP: the log file is opened anew");
  else
    about.warning("SIGHUP: {}", why_not);
}

} // namespace godwit::main
