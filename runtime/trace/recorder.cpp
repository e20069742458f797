#include <godwit/runtime/trace/recorder.hpp>

#include "trace/recorder_core.hpp"

#include <stdexcept>
#include <utility>

namespace godwit::runtime::trace {

std::string_view to_string(level what) noexcept {
  switch (what) {
  case level::off:
    return "off";
  case level::headers:
    return "headers";
  case level::content:
    return "content";
  }
  return "unknown";
}

std::optional<level> parse_level(std::string_view text) noexcept {
  for (const auto what : {level::off, level::headers, level::content})
    if (to_string(what) == text) return what;
  return std::nullopt;
}

recorder::recorder(process who, recorder_settings settings)
    : core_(std::make_shared<detail::recorder_core>(std::move(who), std::move(settings), nullptr)) {}
recorder::recorder(process who, recorder_settings settings, const runtime::clock& clock)
    : core_(std::make_shared<detail::recorder_core>(std::move(who), std::move(settings), &clock)) {}
recorder::~recorder() = default;

void recorder::set_level(trace::level what) noexcept { core_->set_level(what); }
level recorder::level() const noexcept { return core_->level(); }
void recorder::set_filter(filter keep) { core_->set_filter(std::move(keep)); }
std::vector<process> recorder::processes() const { return core_->processes(); }
std::vector<std::pair<event, std::string>> recorder::living() const { return core_->living(); }
recording recorder::snapshot(std::chrono::nanoseconds last) const { return core_->snapshot(last); }
void recorder::drain(const taker& take) { core_->drain(take); }
std::uint64_t recorder::lost() const noexcept { return core_->lost(); }
const runtime::clock& recorder::clock() const noexcept { return core_->clock(); }

trace::tap recorder::tap(filter chosen, tap_function function) {
  trace::tap out;
  out.core_ = core_;
  out.what_ = std::make_shared<detail::tapped>();
  out.what_->chosen = std::move(chosen);
  out.what_->function = std::move(function);
  core_->add_tap(out.what_);
  return out;
}

tap& tap::operator=(tap&& other) noexcept {
  const tap old(std::move(*this)); // ends
  core_ = std::move(other.core_);
  what_ = std::move(other.what_);
  return *this;
}

tap::~tap() {
  if (core_ && what_) core_->remove_tap(what_);
}

namespace {

void write_note(detail::recorder_core& core, std::string_view name, std::vector<attribute> attributes,
                std::uint64_t request) {
  if (!core.on()) return;
  auto& m = core.at();
  event e;
  e.kind = event_kind::note;
  e.id = {m.now.process, core.new_number(m)};
  if (m.current != 0) e.cause = {m.now.process, m.current};
  if (m.handling) e.sender = {m.now.receiver_process, m.now.receiver};
  e.request = request;
  e.begin_ns = e.end_ns = e.queued_ns = core.now_ns();
  e.thread = m.book ? m.book->number : 0;
  if (!core.keeps_beside(request)) return;
  e.attributes = std::move(attributes);
  core.add(std::move(e), name);
}

} // namespace

void recorder::note(std::string_view name, std::vector<attribute> attributes, std::uint64_t request) {
  write_note(*core_, name, std::move(attributes), request);
}

span recorder::begin(std::string_view name, std::uint64_t request, std::uint64_t cause) {
  return span::start(core_, name, request, cause);
}

span begin_span(std::string_view name, std::uint64_t request) {
  return recording_here() ? span::start(detail::here.core->shared_from_this(), name, request, 0) : span{};
}

span span::start(std::shared_ptr<detail::recorder_core> core, std::string_view name, std::uint64_t request,
                 std::uint64_t cause) {
  span out;
  if (!core->on()) return out;
  auto& m = core->at();
  out.core_ = std::move(core);
  out.number_ = out.core_->new_number(m);
  out.cause_ = cause != 0 ? cause : m.current;
  out.request_ = request;
  out.begin_ns_ = out.core_->now_ns();
  out.process_ = m.now.process;
  if (m.handling) out.actor_ = {m.now.receiver_process, m.now.receiver};
  out.name_ = name;
  return out;
}

span::span(span&& other) noexcept
    : core_(std::move(other.core_)), number_(std::exchange(other.number_, 0)), cause_(other.cause_),
      request_(other.request_), actor_(other.actor_), process_(other.process_), begin_ns_(other.begin_ns_),
      name_(std::move(other.name_)), attributes_(std::move(other.attributes_)) {}

span& span::operator=(span&& other) noexcept {
  span old(std::move(*this)); // ends
  core_ = std::move(other.core_);
  number_ = std::exchange(other.number_, 0);
  cause_ = other.cause_;
  request_ = other.request_;
  actor_ = other.actor_;
  process_ = other.process_;
  begin_ns_ = other.begin_ns_;
  name_ = std::move(other.name_);
  attributes_ = std::move(other.attributes_);
  return *this;
}

span::~span() {
  if (!core_) return;
  try {
    add("abandoned", "true");
    end();
  } catch (...) {
  } // no memory for it
}

void span::add(std::string name, std::string value) {
  if (core_) attributes_.emplace_back(std::move(name), std::move(value));
}

span_cause span::as_cause() const noexcept {
  span_cause out;
  out.core_ = core_;
  out.number_ = number_;
  return out;
}

void span::about(std::uint64_t request) noexcept {
  if (request_ == 0) request_ = request;
}

void span::end() {
  const auto core = std::exchange(core_, nullptr);
  if (!core) return;
  const auto& m = core->at();
  event e;
  e.kind = event_kind::span;
  e.id = {process_, number_};
  if (cause_ != 0) e.cause = {process_, cause_};
  e.sender = actor_;
  e.request = request_;
  e.begin_ns = e.queued_ns = begin_ns_;
  e.end_ns = core->now_ns();
  e.thread = m.book ? m.book->number : 0;
  if (!core->keeps_beside(request_)) return;
  e.attributes = std::move(attributes_);
  core->add(std::move(e), name_);
}

bool recording_here() noexcept { return detail::here.handling && detail::here.core->on(); }

void note(std::string_view name, std::vector<attribute> attributes, std::uint64_t request) {
  if (recording_here()) write_note(*detail::here.core, name, std::move(attributes), request);
}

replay_source* replaying() noexcept { return detail::source_here; }

namespace detail {

bool keeps_inputs() noexcept { return recording_here() && here.core->whole() && here.core->prompts(); }

void keep_input(std::string_view name, std::string bytes) {
  if (!keeps_inputs()) return;
  auto& m = here.core->at();
  event e;
  e.kind = event_kind::note;
  e.id = {m.now.process, here.core->new_number(m)};
  e.cause = {m.now.process, m.current};
  e.sender = {m.now.receiver_process, m.now.receiver};
  e.begin_ns = e.end_ns = e.queued_ns = here.core->now_ns();
  e.thread = m.book ? m.book->number : 0;
  e.content = std::move(bytes);
  here.core->add(std::move(e), "input:" + std::string(name));
}

void input_is_missing(std::string_view name) {
  throw std::runtime_error("the recording has no value for " + std::string(name) + " here");
}

} // namespace detail

foreign_call::foreign_call() noexcept : before_(std::exchange(detail::here.foreign, true)) {}

foreign_call::~foreign_call() { detail::here.foreign = before_; }

because_of::because_of(const span_cause& cause) noexcept : core_(cause.core_) {
  if (core_) before_ = std::exchange(core_->at().current, cause.number_);
}

because_of::~because_of() {
  if (core_) core_->at().current = before_;
}

} // namespace godwit::runtime::trace
