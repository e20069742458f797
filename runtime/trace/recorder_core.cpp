#include "trace/recorder_core.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

namespace godwit::runtime::trace::detail {

constinit thread_local moment here;
constinit thread_local moment visiting;
constinit thread_local replay_source* source_here = nullptr;

namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0}; // tells recorders of this process apart, nothing else
  return ++last;
}

recorder_settings bounded(recorder_settings s) {
  s.events_per_thread = std::bit_ceil(std::clamp<std::size_t>(s.events_per_thread, 16, std::size_t{1} << 24));
  s.threads_max = std::clamp<std::size_t>(s.threads_max, 1, 4096);
  s.events_beside = std::max<std::size_t>(s.events_beside, 16);
  return s;
}

/// Spreads request ids evenly over [0, 1).
double share_of(std::uint64_t request) noexcept {
  auto x = request * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 32U)) * 0xD6E8FEB86659FD93ULL;
  return static_cast<double>((x ^ (x >> 29U)) >> 11U) * 0x1.0p-53;
}

} // namespace

recorder_core::recorder_core(process who, recorder_settings settings, const runtime::clock* simulated)
    : serial_(next_serial()), settings_(bounded(std::move(settings))), level_(settings_.level), ticks_(simulated) {
  if (who.key != 0) places_[who.key] = 0;
  processes_.push_back(std::move(who));
  set_filter(settings_.keep);
}

moment& recorder_core::enter() {
  auto& m = here.handling ? visiting : here;
  if (m.serial == serial_) return m;
  const auto me = std::this_thread::get_id();
  const std::lock_guard lock(mutex_);
  m = {};
  m.serial = serial_;
  m.core = this;
  const auto found = std::find_if(books_.begin(), books_.end(), [&](const auto& book) { return book->thread == me; });
  if (found != books_.end()) {
    m.book = found->get();
    return m;
  }
  if (books_.size() >= settings_.threads_max) return m;
  books_.push_back(
      std::make_unique<thread_book>(static_cast<std::uint16_t>(books_.size()), settings_.events_per_thread, me));
  m.book = books_.back().get();
  return m;
}

void recorder_core::set_filter(filter keep) {
  const std::lock_guard lock(mutex_);
  filtered_.store(!keep.everything(), std::memory_order_relaxed);
  keep_ = std::make_shared<const filter>(std::move(keep));
  filter_version_.fetch_add(1, std::memory_order_release);
}

bool recorder_core::passes(moment& m, const slot& s, std::string_view receiver) {
  auto& book = *m.book;
  if (const auto version = filter_version_.load(std::memory_order_acquire); version != book.filter_version) {
    const std::lock_guard lock(mutex_);
    book.keep = keep_;
    book.filter_version = version;
  }
  return passes(*book.keep, s, receiver);
}

namespace {

bool passes_request(const filter& keep, std::uint64_t request) {
  if (keep.sample < 1 && request != 0 && share_of(request) >= keep.sample) return false;
  return keep.requests.empty() || std::find(keep.requests.begin(), keep.requests.end(), request) != keep.requests.end();
}

bool passes_type(const filter& keep, std::string_view name) {
  return keep.types.empty() || std::any_of(keep.types.begin(), keep.types.end(),
                                           [&](const auto& part) { return name.find(part) != std::string_view::npos; });
}

/// `llumlet`, or `llumlet 12`.
bool is_called(const std::string& wanted, std::string_view name, std::uint64_t id) {
  if (wanted == name) return true;
  return wanted.size() > name.size() + 1 && wanted.starts_with(name) && wanted[name.size()] == ' ' &&
         wanted.substr(name.size() + 1) == std::to_string(id);
}

} // namespace

bool recorder_core::passes(const filter& keep, const slot& s, std::string_view receiver) const {
  if (!passes_request(keep, s.request)) return false;
  if (!passes_type(keep, s.type ? s.type->name : to_string(static_cast<message_kind>(s.message)))) return false;
  if (keep.actors.empty()) return true;
  const auto any = [&](std::string_view name, std::uint64_t id) {
    return std::any_of(keep.actors.begin(), keep.actors.end(),
                       [&](const auto& wanted) { return is_called(wanted, name, id); });
  };
  return any(receiver, s.receiver) || (s.sender != 0 && any(name_of({s.sender_process, s.sender}), s.sender));
}

// Notes and spans say how things are: they go with the requests that they are about, and those about none stay.
bool recorder_core::passes_beside(std::uint64_t request) const {
  std::shared_ptr<const filter> keep;
  {
    const std::lock_guard lock(mutex_);
    keep = keep_;
  }
  return request == 0 || passes_request(*keep, request);
}

void recorder_core::add_tap(std::shared_ptr<tapped> one) {
  const std::lock_guard lock(mutex_);
  taps_.push_back(std::move(one));
  taps_there_ = true;
}

void recorder_core::remove_tap(const std::shared_ptr<tapped>& one) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(taps_, one);
    taps_there_ = !taps_.empty();
  }
  const std::lock_guard lock(one->calling);
  one->over = true;
}

void recorder_core::show_to_all(moment& m, std::string_view receiver) {
  std::vector<std::shared_ptr<tapped>> all;
  {
    const std::lock_guard lock(mutex_);
    all = taps_;
  }
  // What a tap does is nothing that the actor does.
  const auto before = m;
  m.current = 0;
  m.handling = false;
  std::optional<event> shown;
  for (const auto& one : all) {
    if (!passes(one->chosen, before.now, receiver)) continue;
    if (!shown) {
      shown = to_event(before.now, m.book->number);
      shown->end_ns = shown->begin_ns;
      if (m.whole) {
        shown->content = m.book->whole.content;
        shown->actors = m.book->whole.actors;
        shown->text = m.book->whole.text;
      }
    }
    const std::lock_guard lock(one->calling);
    try {
      if (!one->over) one->function(*shown, before.now.type ? before.now.type->name : std::string_view{});
    } catch (...) {
    } // a tap's fault is not the actor's
  }
  m = before;
}

std::size_t recorder_core::beside::bytes() const noexcept {
  auto sum =
      sizeof(beside) + name.size() + what.content.size() + what.text.size() + what.actors.size() * sizeof(actor_id);
  for (const auto& a : what.attributes) sum += sizeof a + a.name.size() + a.value.size();
  return sum;
}

void recorder_core::add(event what, std::string_view name) {
  auto one = std::make_shared<const beside>(beside{std::move(what), std::string(name)});
  const auto size = one->bytes();
  const std::lock_guard lock(mutex_);
  beside_bytes_ += size;
  beside_.push_back(std::move(one));
  while (beside_.size() > settings_.events_beside || (beside_bytes_ > settings_.bytes_beside && beside_.size() > 1)) {
    beside_bytes_ -= beside_.front()->bytes();
    beside_.pop_front();
    ++beside_first_;
  }
}

void recorder_core::finish_whole(moment& m) {
  auto& whole = m.book->whole;
  const auto* type = m.now.type;
  auto out = to_event(m.now, m.book->number);
  // whole.queued_ns was taken by the counter, the others by the clock
  out.begin_ns = whole.begin_ns;
  out.end_ns = std::max(whole.begin_ns, now_ns());
  out.queued_ns = std::min(out.queued_ns, out.begin_ns);
  out.content = std::move(whole.content);
  out.actors = std::move(whole.actors);
  out.text = std::move(whole.text);
  whole = {};
  add(std::move(out), type ? type->name : std::string_view{});
}

event recorder_core::to_event(const slot& s, std::uint32_t thread) const {
  event e;
  e.kind = static_cast<event_kind>(s.kind);
  e.message = static_cast<message_kind>(s.message);
  e.outside = s.outside;
  e.resumed = s.resumed;
  e.id = {s.process, s.id};
  if (s.cause != 0) e.cause = {s.cause_process, s.cause};
  if (s.sender != 0) e.sender = {s.sender_process, s.sender};
  if (s.receiver != 0) e.receiver = {s.receiver_process, s.receiver};
  e.thread = thread;
  e.begin_ns = ticks_.to_ns(s.begin);
  e.queued_ns = s.queued < 0 ? ~s.queued : s.queued == 0 ? e.begin_ns : std::min(e.begin_ns, ticks_.to_ns(s.queued));
  e.end_ns = std::max(e.begin_ns, ticks_.to_ns(s.end));
  e.request = s.request;
  e.wait = s.wait;
  e.first = s.first;
  e.made = s.made;
  e.bytes = s.bytes;
  e.depth = s.depth;
  return e;
}

void recorder_core::actor_began(const event& what, std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    living_[what.receiver] = {what, std::string(name)};
  }
  if (on()) add(what, name);
}

void recorder_core::actor_ended(actor_id who) {
  constexpr std::size_t remembered_max = 4096;
  const std::lock_guard lock(mutex_);
  const auto found = living_.find(who);
  if (found == living_.end()) return;
  ended_[who] = std::move(found->second.second);
  ended_order_.push_back(who);
  living_.erase(found);
  if (ended_order_.size() <= remembered_max) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

std::string recorder_core::name_of(actor_id who) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = living_.find(who); found != living_.end()) return found->second.second;
  const auto found = ended_.find(who);
  return found == ended_.end() ? std::string{} : found->second;
}

std::uint16_t recorder_core::process_by_key(std::uint64_t key, bool records) {
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(key); found != places_.end()) return found->second;
  const auto next = static_cast<std::uint16_t>(processes_.size());
  if (next < (records ? processes_max : strangers_max)) {
    processes_.emplace_back();
    processes_.back().key = key;
    return places_[key] = next;
  }
  if (const auto shared = others_.load(std::memory_order_relaxed); shared != 0) return shared;
  processes_.emplace_back();
  processes_.back().name = "other";
  others_.store(next, std::memory_order_relaxed);
  return next;
}

void recorder_core::name_process(std::uint16_t which, std::uint64_t key, std::string name) {
  const std::lock_guard lock(mutex_);
  processes_[which].key = key;
  places_[key] = which;
  if (processes_[which].name.empty()) processes_[which].name = std::move(name);
}

std::vector<process> recorder_core::processes() const {
  const std::lock_guard lock(mutex_);
  return processes_;
}

std::vector<std::pair<event, std::string>> recorder_core::living() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<event, std::string>> out;
  for (const auto& [who, began] : living_) out.push_back(began);
  return out;
}

} // namespace godwit::runtime::trace::detail
