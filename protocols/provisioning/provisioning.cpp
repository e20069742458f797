#include "provisioning/numbered.hpp"

#include <godwit/protocols/provisioning/provisioning.hpp>

#include <algorithm>
#include <utility>

// Processes, their news, and what an operator wants.
namespace godwit::protocols {

provisioning::provisioning(provisioning_settings settings) : settings_(settings) {}

provisioning::effects provisioning::step(const event& what, std::int64_t now_ns) {
  now_ = std::max(now_, now_ns);
  out_.clear();
  std::visit([this](const auto& e) { on(e); }, what);
  return std::exchange(out_, {});
}

// --- what is there

provisioning::process* provisioning::find(std::uint64_t key) noexcept {
  const auto first = by_key_.find(key);
  return first == by_key_.end() ? nullptr : &processes_.at(first->second);
}

const provisioning::process* provisioning::keeper_of(instance_id id) const noexcept {
  auto next = processes_.upper_bound(id);
  if (next == processes_.begin()) return nullptr;
  const auto& p = std::prev(next)->second;
  return id.value() - p.first.value() < p.instances.size() ? &p : nullptr;
}

provisioning::process* provisioning::keeper_of(instance_id id) noexcept {
  return const_cast<process*>(std::as_const(*this).keeper_of(id));
}

const provisioning::instance_books* provisioning::find(instance_id id) const noexcept {
  const auto* p = keeper_of(id);
  return p == nullptr ? nullptr : &p->instances[id.value() - p->first.value()];
}

provisioning::instance_books* provisioning::find(instance_id id) noexcept {
  return const_cast<instance_books*>(std::as_const(*this).find(id));
}

bool provisioning::draining(instance_id id) const noexcept {
  const auto* books = find(id);
  return books != nullptr && books->drains() && !books->stopped();
}

void provisioning::on(const process_joined& e) {
  on(process_left{e.key}); // the one before, if any
  process p;
  p.key = e.key;
  p.name = e.name;
  p.where = e.where;
  p.first = e.first;
  ids_known_ = std::max(ids_known_, e.first.value() + e.instances);
  p.instances.resize(e.instances);
  const auto comes_for = [&](const open_order& o) {
    if (o.name.empty() || o.bound || p.where == place::own) return false;
    return p.where == place::further ? o.key == p.key : o.key == 0 && o.name == p.name;
  };
  if (const auto order = std::ranges::find_if(orders_, comes_for); order != orders_.end()) {
    order->bound = p.key;
    order->there = true;
  } else if (p.where != place::own) {
    // The head's process runs a further one by order only, so that this one's order is gone.
    p.late = p.where == place::further || std::ranges::find(given_up_, p.name) != given_up_.end();
  }
  by_key_[p.key] = p.first;
  processes_[p.first] = std::move(p);
}

void provisioning::on(const process_news& e) {
  auto* p = find(e.key);
  if (p == nullptr || e.instances.size() != p->instances.size()) return;
  for (std::size_t i = 0; i < e.instances.size(); ++i) {
    auto& books = p->instances[i];
    const auto before = books;
    books.said = e.instances[i];
    note(*p, instance_id{p->first.value() + static_cast<std::uint32_t>(i)}, before);
  }
  if (p->late) stop_late(*p);
}

void provisioning::note(process& p, instance_id id, const instance_books& before) {
  auto& books = *find(id);
  if (auto* order = order_for(id)) order->there = books.up_to_date() && !books.said.stopped;
  if (books.takes_requests()) {
    books.attempts = 0;
    fulfil(p, id, !before.takes_requests() || before.said.generation != books.said.generation);
  }
  if (books.stopped() && books.why != leaving::no && !std::exchange(books.ended, true)) note_stop(p, id);
}

void provisioning::note_stop(process& p, instance_id id) {
  const auto why = find(id)->why;
  if (why == leaving::scaled_in) {
    ++scaled_in_;
    out_.emplace_back(say{false, "scaled in: " + numbered(id) + " is stopped"});
  }
  if (why == leaving::scaled_in || p.late) hand_back(p, id);
}

void provisioning::stop_late(process& p) {
  for (std::size_t i = 0; i < p.instances.size(); ++i)
    if (!p.instances[i].stopped() && p.instances[i].why == leaving::no)
      drain(instance_id{p.first.value() + static_cast<std::uint32_t>(i)}, leaving::given_up);
  hand_back(p, p.first); // one whose instances never ran
}

// It comes back, if at all, as it was at its start.
void provisioning::on(const process_left& e) {
  const auto* p = find(e.key);
  if (p == nullptr) return;
  std::vector<std::uint64_t> ended;
  for (const auto& o : orders_)
    if (o.bound == e.key || (o.name.empty() && keeper_of(o.spare) == p)) ended.push_back(o.number);
  const auto first = p->first;
  by_key_.erase(e.key);
  processes_.erase(first);
  for (const auto number : ended) give_up(number, "its process is gone");
}

// Said once in a step: the caller tells all of it after the step.
void provisioning::changed() {
  const auto told = [](const effect& e) { return std::holds_alternative<tell_all>(e); };
  if (std::ranges::none_of(out_, told)) out_.emplace_back(tell_all{});
}

// --- drains

void provisioning::drain(instance_id id, leaving why) {
  auto& books = *find(id);
  books.why = why;
  books.ended = false;
  books.number = ++numbers_;
  changed();
  out_.emplace_back(drain_instance{id, true, books.number});
}

// Or starts it again, where it has stopped, which its member knows best.
void provisioning::go_on(instance_id id) {
  auto& books = *find(id);
  books.why = leaving::no;
  books.ended = false;
  books.number = ++numbers_;
  changed();
  out_.emplace_back(drain_instance{id, false, books.number});
}

std::string provisioning::why_not_drain(instance_id id) const {
  const auto* books = find(id);
  if (books == nullptr) return "there is no " + numbered(id);
  if (books->stopped()) return numbered(id) + " is stopped";
  for (const auto& [first, p] : processes_)
    for (const auto& other : p.instances)
      if (&other != books && other.takes_requests()) return {};
  return numbered(id) +
         (books->says_ready() ? " is the last one that takes requests" : " is not ready, and no other takes requests");
}

// One that loads, or fails and starts over and over, its member stops at once.
void provisioning::drain_by_hand(instance_id id) {
  drain(id, leaving::by_hand);
  if (const auto* order = order_for(id)) give_up(order->number, "an operator stops it");
}

// Nothing of it is to be started any more, and what is not ready has nothing to get rid of. What is ready drains when
// it is asked for.
void provisioning::note_leaving(process& p) {
  p.leaves = true;
  std::vector<std::uint64_t> spares;
  for (const auto& o : orders_)
    if (o.name.empty() && keeper_of(o.spare) == &p) spares.push_back(o.number);
  for (const auto number : spares) give_up(number, "its process leaves");
  for (std::size_t i = 0; i < p.instances.size(); ++i) {
    auto& books = p.instances[i];
    if (books.stopped() || books.says_ready()) continue;
    if (books.drains())
      books.why = leaving::by_hand;
    else
      drain(instance_id{p.first.value() + static_cast<std::uint32_t>(i)}, leaving::by_hand);
  }
}

void provisioning::on(const head_ends&) {
  if (std::exchange(ends_, true)) return;
  while (!orders_.empty()) give_up(orders_.front().number, "the head ends");
  changed();
}

void provisioning::on(const drain_wanted& e) {
  auto* books = find(e.instance);
  if (books == nullptr) {
    out_.emplace_back(refuse{"there is no " + numbered(e.instance)});
    return;
  }
  auto& p = *keeper_of(e.instance);
  if (e.drains && e.leaves) note_leaving(p);
  const bool drains = !books->stopped() && books->drains();
  if (e.drains) {
    if (drains || (e.leaves && books->stopped()))
      books->why = leaving::by_hand; // autoscaling neither takes it back nor starts it any more
    else if (auto why = ends_ ? std::string() : why_not_drain(e.instance); !why.empty())
      out_.emplace_back(refuse{std::move(why), !books->stopped()});
    else
      drain_by_hand(e.instance);
    return;
  }
  if (!drains && !books->stopped()) {
    out_.emplace_back(refuse{numbered(e.instance) + " is not being drained"});
    return;
  }
  books->attempts = 0;
  p.late = p.returned = p.leaves = false; // somebody wants it
  std::erase(given_up_, p.name);
  go_on(e.instance);
}

} // namespace godwit::protocols
