#include "provisioning/numbered.hpp"

#include <godwit/protocols/provisioning/provisioning.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

// What autoscaling wants, and what becomes of it.
namespace godwit::protocols {

namespace {

/// Names of given up orders that are remembered. One that comes later than so many others is an ordinary process.
constexpr std::size_t given_up_max = 256;

std::string milliseconds(std::int64_t ns) { return std::to_string(ns / 1'000'000) + " ms"; }
std::string attempts(std::uint32_t count) { return std::to_string(count) + (count == 1 ? " attempt" : " attempts"); }

/// "scaled-3", or "scaled-00c0ffee-3" in a life of the head.
std::string name_of_order(std::uint32_t life, std::uint64_t number) {
  std::string out = "scaled-";
  if (life != 0) {
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[life >> shift & 15U];
    out += '-';
  }
  return out + std::to_string(number);
}

std::int64_t later(std::int64_t now, std::int64_t time, std::uint32_t doublings) noexcept {
  constexpr auto never = std::numeric_limits<std::int64_t>::max();
  for (; doublings > 0 && time < never / 2; --doublings) time *= 2;
  return time < never - now ? now + time : never;
}

} // namespace

std::optional<std::int64_t> provisioning::oldest_order() const noexcept {
  return orders_.empty() ? std::nullopt : std::optional(orders_.front().at_ns);
}

std::optional<std::int64_t> provisioning::next_deadline() const noexcept {
  return orders_.empty() ? std::nullopt : std::optional(later(orders_.front().at_ns, settings_.timeout_ns, 0));
}

std::uint32_t provisioning::ordered() const noexcept {
  return static_cast<std::uint32_t>(std::ranges::count(orders_, false, &open_order::there));
}

provisioning::open_order* provisioning::order_for(instance_id spare) noexcept {
  const auto found =
      std::ranges::find_if(orders_, [spare](const auto& o) { return o.name.empty() && o.spare == spare; });
  return found == orders_.end() ? nullptr : &*found;
}

void provisioning::on(const scaling_wanted& e) {
  failure_.clear();
  if (ends_ && e.what != scaling_decision::kind::keep) return;
  switch (e.what) {
  case scaling_decision::kind::out:
    scale_out();
    return;
  case scaling_decision::kind::in:
    scale_in(e.instance);
    return;
  case scaling_decision::kind::keep:
    if (const auto* books = find(e.instance); books != nullptr && books->why == leaving::scaled_in && !books->stopped())
      go_on(e.instance);
    return;
  }
}

void provisioning::on(const order_failed& e) { give_up(e.order, e.why); }

void provisioning::on(const time_passed&) {
  while (!orders_.empty() && *next_deadline() <= now_)
    give_up(orders_.front().number,
            orders_.front().name.empty() ? "it is not ready in time" : "it is not there in time");
}

// For the log, and for who asks how it stands. Autoscaling wants again and again: the log hears of it once.
void provisioning::fail(std::string why) {
  if (why != failure_said_) out_.emplace_back(say{true, why});
  failure_said_ = why;
  failure_ = std::move(why);
}

void provisioning::scale_in(instance_id id) {
  const auto* books = find(id);
  if (books != nullptr && books->why != leaving::no) return;
  auto why = why_not_drain(id);
  // It took requests when that was decided: one less there is already.
  if (why.empty() && !books->says_ready()) why = numbered(id) + " is not ready";
  if (!why.empty())
    fail("cannot scale in: " + why);
  else
    drain(id, leaving::scaled_in);
}

provisioning::spare_search provisioning::find_spare() const {
  spare_search search;
  for (const auto& [first, p] : processes_) {
    if (p.late || p.returned || p.leaves) continue;
    for (std::size_t i = 0; i < p.instances.size(); ++i) {
      const auto& books = p.instances[i];
      const auto id = instance_id{first.value() + static_cast<std::uint32_t>(i)};
      const bool ordered =
          std::ranges::any_of(orders_, [id](const auto& o) { return o.name.empty() && o.spare == id; });
      if (!books.stopped() || books.why == leaving::by_hand || ordered) continue;
      if (books.attempts < settings_.spare_attempts_max && now_ >= books.left_alone_until_ns) {
        search.found = id;
        return search;
      }
      if (!search.left_alone) search.left_alone = id;
    }
  }
  return search;
}

void provisioning::scale_out() {
  const auto spare = find_spare();
  if (orders_.size() >= settings_.orders_max) return fail("cannot scale out: too many instances are ordered already");
  if (!spare.found && !settings_.provider && !settings_.here) {
    const auto* slow = spare.left_alone ? find(*spare.left_alone) : nullptr;
    return fail(slow == nullptr ? "cannot scale out: no instance is stopped, and nobody provides others"
                                : "cannot scale out: " + numbered(*spare.left_alone) + " was not ready in time (" +
                                      attempts(slow->attempts) + ") and is left alone, and nobody provides others");
  }
  open_order order;
  order.number = ++orders_total_;
  order.at_ns = now_;
  order.ids_known = ids_known_;
  if (spare.found) {
    order.spare = *spare.found;
  } else {
    order.name = name_of_order(settings_.life, order.number);
    if (!settings_.provider) order.key = ~order.number; // other processes draw theirs at random
  }
  orders_.push_back(order);
  out_.emplace_back(say{false, spare.found ? "scaling out: starting " + numbered(order.spare)
                                           : "scaling out: ordering " + order.name});
  changed();
  if (spare.found) {
    auto& books = *find(order.spare);
    books.why = leaving::no;
    books.ended = false;
    books.number = ++numbers_;
    out_.emplace_back(start_instance{order.spare, books.number});
  } else if (order.key != 0) {
    out_.emplace_back(run_process{order.number, order.key});
  } else {
    out_.emplace_back(order_process{order.number, order.name});
  }
}

void provisioning::fulfil(const process& p, instance_id id, bool just_now) {
  auto order = std::ranges::find_if(orders_, [&](const auto& o) { return o.name.empty() && o.spare == id; });
  if (order == orders_.end()) order = std::ranges::find(orders_, std::optional(p.key), &open_order::bound);
  // Perhaps it was started under another name; but not who was there before, and has only joined again.
  if (order == orders_.end() && just_now && p.where == place::elsewhere && !p.late)
    order = std::ranges::find_if(orders_, [&](const auto& o) {
      return !o.name.empty() && o.key == 0 && !o.bound && p.first.value() >= o.ids_known;
    });
  if (order == orders_.end()) return;
  ++scaled_out_;
  failure_said_.clear();
  out_.emplace_back(say{false, "scaled out: " + numbered(id) + " takes requests " + milliseconds(now_ - order->at_ns) +
                                   " after it was ordered"});
  orders_.erase(order);
}

void provisioning::give_up(std::uint64_t number, std::string_view why) {
  const auto found = std::ranges::find(orders_, number, &open_order::number);
  if (found == orders_.end()) return; // it came
  const auto order = *found;
  orders_.erase(found);
  ++given_up_total_;
  changed();
  auto text = "gave up " + (order.name.empty() ? numbered(order.spare) : order.name) + " after " +
              milliseconds(now_ - order.at_ns) + ": " + std::string(why);
  if (order.name.empty()) {
    if (auto* books = find(order.spare);
        books != nullptr && books->why != leaving::by_hand && !keeper_of(order.spare)->leaves) {
      const auto pause = later(0, settings_.timeout_ns, books->attempts);
      books->left_alone_until_ns = later(now_, settings_.timeout_ns, books->attempts);
      ++books->attempts;
      text += books->attempts < settings_.spare_attempts_max
                  ? "; it is left alone for " + milliseconds(pause)
                  : " (" + attempts(books->attempts) + " in a row); it is left alone until somebody starts it";
      if (books->why == leaving::no) drain(order.spare, leaving::given_up); // stops at once what is not ready
    }
    return fail(std::move(text));
  }
  fail(std::move(text));
  if (const auto* p = order.bound ? find(*order.bound) : nullptr;
      p != nullptr && std::ranges::find(p->instances, leaving::by_hand, &instance_books::why) != p->instances.end())
    return; // its process is an operator's by now
  given_up_.push_back(order.name);
  if (given_up_.size() > given_up_max) given_up_.pop_front();
  if (order.key != 0)
    out_.emplace_back(end_process{order.key});
  else
    out_.emplace_back(give_back{order.name, std::nullopt});
  std::vector<std::uint64_t> with_it;
  for (auto& [first, p] : processes_) { // the one that came for it; and others of its name, who knows how
    const bool came = order.bound == p.key;
    if (!came && (order.key != 0 || p.where != place::elsewhere || p.name != order.name)) continue;
    p.late = true;
    p.returned = p.returned || came; // which has just been said
    stop_late(p);
    for (const auto& o : orders_)
      if (o.name.empty() && keeper_of(o.spare) == &p) with_it.push_back(o.number);
  }
  for (const auto spare : with_it) give_up(spare, "its process is not wanted any more");
}

// In this life of the head, whether it has come already or not.
bool provisioning::was_ordered(std::string_view name) const {
  auto prefix = name_of_order(settings_.life, 0);
  prefix.pop_back();
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() && number > 0 && number <= orders_total_;
}

// Not with instances that run, nor with those that an operator has stopped.
void provisioning::hand_back(process& p, instance_id last) {
  if (p.returned || p.where == place::own) return;
  if (p.where == place::elsewhere && !(settings_.provider && (settings_.takes_others || was_ordered(p.name)))) return;
  const auto empty = [](const instance_books& b) { return b.stopped() && b.why != leaving::by_hand; };
  if (!std::ranges::all_of(p.instances, empty)) return;
  p.returned = true;
  if (p.where == place::further)
    out_.emplace_back(end_process{p.key});
  else
    out_.emplace_back(give_back{p.name, last});
}

} // namespace godwit::protocols
