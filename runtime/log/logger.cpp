#include <godwit/runtime/log/logger.hpp>

namespace godwit::runtime::log {

logger::logger(std::shared_ptr<backend> to, level_filter filter) {
  auto made = std::make_shared<context>();
  made->to = std::move(to);
  made->filter = std::make_shared<const level_filter>(std::move(filter));
  made->threshold = made->filter->of("");
  if (made->to) context_ = std::move(made);
}

logger logger::component(std::string name) const {
  auto out = logger();
  if (!context_) return out;
  auto made = std::make_shared<context>(*context_);
  made->threshold = made->filter->of(name);
  made->component = std::move(name);
  out.context_ = std::move(made);
  return out;
}

logger logger::with(std::string key, std::string value) const {
  auto out = logger();
  if (!context_) return out;
  auto made = std::make_shared<context>(*context_);
  made->fields.push_back({std::move(key), std::move(value)});
  out.context_ = std::move(made);
  return out;
}

void logger::write_text(level l, std::string_view message) const {
  if (!enabled(l)) return;
  auto r = record();
  r.time = context_->to->now();
  r.severity = l;
  r.component = context_->component;
  r.fields = &context_->fields;
  r.message = message;
  context_->to->write(r);
}

void logger::flush() const {
  if (context_) context_->to->flush();
}

std::string logger::reopen() const { return context_ ? context_->to->reopen() : "there is no log"; }

} // namespace godwit::runtime::log
