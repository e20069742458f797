#include <godwit/transport/sim/network.hpp>

#include "fabric/device_copies.hpp"
#include "sim/network.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace godwit::transport::sim {

namespace {

class node_fabric final : public fabric {
public:
  node_fabric(std::shared_ptr<network::impl> net, std::shared_ptr<node> self)
      : net_(std::move(net)), self_(std::move(self)) {}
  ~node_fabric() override { net_->leave(self_); }
  [[nodiscard]] std::string address() const override { return self_->address; }
  void post(transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
            std::function<void(landing)> on_landed) override {
    auto error = kind_of(regions, false).error; // a simulated device has no memory
    if (error.empty()) error = self_->table.open(key, std::move(regions), std::move(keep), on_landed);
    if (!error.empty()) call_later([on_landed = std::move(on_landed), error] { on_landed(landing{0, error}); });
  }
  void withdraw(transfer_key key, std::function<void()> done) override {
    for (auto& call : self_->table.close(key, std::move(done))) call_later(std::move(call));
  }
  void send(const std::string& peer, transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transfer_priority priority, std::chrono::nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done) override {
    net_->send(self_, peer, key, first_region, std::move(regions), priority, timeout, std::move(keep), std::move(done));
  }
  [[nodiscard]] counters figures() const override { return net_->figures(*self_); }

private:
  void call_later(std::function<void()> function) {
    self_->timers.call_after(std::chrono::nanoseconds{0}, std::move(function));
  }
  std::shared_ptr<network::impl> net_;
  std::shared_ptr<node> self_;
};

constexpr auto prefix = "godwit-fabric/1/sim/";

} // namespace

network::network(runtime::async::timer_source& timers, settings options)
    : impl_(std::make_shared<impl>(timers, options)) {}
network::~network() = default;

std::shared_ptr<fabric> network::make_fabric(const std::string& name) { return make_fabric(name, impl_->timers()); }

std::shared_ptr<fabric> network::make_fabric(const std::string& name, runtime::async::timer_source& of_process) {
  auto made = std::make_shared<node>(of_process);
  made->name = name;
  made->address = impl_->join(made, prefix + name);
  return std::make_shared<node_fabric>(impl_, std::move(made));
}

void network::cut(const std::string& a, const std::string& b) { impl_->cut(a, b, true); }
void network::heal(const std::string& a, const std::string& b) { impl_->cut(a, b, false); }
void network::freeze(const std::string& name) { impl_->freeze(name, true); }
void network::thaw(const std::string& name) { impl_->freeze(name, false); }
void network::drop_acknowledgements(const std::string& name, std::uint32_t count) { impl_->drop(name, count); }
void network::slow_writes(const std::string& name, std::chrono::nanoseconds late, std::chrono::nanoseconds open) {
  impl_->slow(name, late, open);
}

network::impl::impl(runtime::async::timer_source& timers, settings options) : timers_(timers), options_(options) {}

// The generation tells a name's later bearer from the one before.
std::string network::impl::join(const std::shared_ptr<node>& who, const std::string& base) {
  const std::lock_guard lock{mutex_};
  auto address = base + "/" + std::to_string(++last_node_);
  nodes_[address] = who;
  return address;
}

void network::impl::leave(const std::shared_ptr<node>& who) {
  calls made;
  {
    const std::lock_guard lock{mutex_};
    nodes_.erase(who->address);
    made = who->table.close_all();
    std::vector<std::uint64_t> open;
    for (const auto& [name, what] : sends_)
      if (what->from == who) open.push_back(name);
    for (const auto name : open) finish(name, "the fabric was closed", made);
  }
  for (auto& call : made) call();
}

runtime::async::timer_source::timer_id network::impl::after(runtime::async::timer_source& timers,
                                                            std::chrono::nanoseconds delay,
                                                            std::function<void(impl&, calls&)> step) {
  return timers.call_after(delay, [weak = weak_from_this(), step = std::move(step)] {
    const auto self = weak.lock();
    if (!self) return;
    calls made;
    {
      const std::lock_guard lock{self->mutex_};
      step(*self, made);
    }
    for (auto& call : made) call();
  });
}

void network::impl::send(const std::shared_ptr<node>& from, const std::string& peer, transfer_key key,
                         std::uint32_t first_region, std::vector<protocols::memory_region> regions,
                         transfer_priority priority, std::chrono::nanoseconds timeout, std::shared_ptr<void> keep,
                         std::function<void(std::string)> done) {
  if (auto error = kind_of(regions, false).error; !error.empty()) {
    {
      const std::lock_guard lock{mutex_};
      ++from->counted.failed;
    }
    from->timers.call_after(std::chrono::nanoseconds{0},
                            [keep = std::move(keep), done = std::move(done), error = std::move(error)]() mutable {
                              keep.reset();
                              done(std::move(error));
                            });
    return;
  }
  auto made = std::make_shared<sending>(sending{from, peer, key, piece_cutter{first_region, std::move(regions)},
                                                std::move(keep), std::move(done), 0, 0, 0});
  std::uint64_t name = 0;
  {
    const std::lock_guard lock{mutex_};
    name = ++last_send_;
    made->timer = after(from->timers, timeout, [name](impl& net, calls& more) { net.finish(name, "timed out", more); });
    sends_.emplace(name, std::move(made));
    ++from->counted.sends_open;
    (priority == transfer_priority::urgent ? from->urgent : from->bulk).push_back(name);
  }
  after(std::chrono::nanoseconds{0}, [from](impl& net, calls&) { net.transmit(from); });
}

// One message at a time leaves a fabric; the next one when the bandwidth allows it.
void network::impl::transmit(const std::shared_ptr<node>& from) {
  if (from->sending || frozen_.contains(from->name)) return;
  auto& queue = from->urgent.empty() ? from->bulk : from->urgent;
  if (queue.empty()) return;
  const auto name = queue.front();
  const auto found = sends_.find(name);
  if (found == sends_.end()) {
    queue.pop_front();
    after(std::chrono::nanoseconds{0}, [from](impl& net, calls&) { net.transmit(from); });
    return;
  }
  auto& what = *found->second;
  auto* const to = receiver_of(what.peer, *from);
  if (to != nullptr && to->receives_until > timers_.now() + options_.latency) return try_again(from, *to);
  std::vector<protocols::memory_region> memory;
  const auto cut = what.cutter.next({options_.bytes_per_message, 1U << 16U, 1U << 16U}, memory);
  ++what.pieces_open;
  ++from->counted.messages_sent;
  if (what.cutter.ended()) queue.pop_front();
  const auto time_of = [this](std::uint64_t bytes) {
    return std::chrono::nanoseconds{
        static_cast<std::int64_t>(static_cast<double>(bytes) / options_.bytes_per_second * 1e9)};
  };
  // However many messages a send is cut into, together they take what its bytes take.
  const auto takes = time_of(what.bytes_cut + cut.bytes) - time_of(what.bytes_cut);
  what.bytes_cut += cut.bytes;
  from->sending = true;
  if (to != nullptr) to->receives_until = timers_.now() + options_.latency + takes;
  // The arrival first: on a clock that goes on between the two, the next message would otherwise overtake this one.
  const auto way = takes + options_.overhead + options_.latency;
  if (!carry(name, what, cut, memory, way))
    after(way, [name, cut, memory](impl& net, calls& made) { net.arrive(name, cut, memory, made); });
  after(takes, [from](impl& net, calls&) {
    from->sending = false;
    // Behind those who have waited for this one's end: who sends to one receiver takes turns.
    net.after(std::chrono::nanoseconds{0}, [from](impl& again, calls&) { again.transmit(from); });
  });
}

// Meanwhile nothing is taken from the link: what is urgent, for another receiver, does not wait with it.
void network::impl::try_again(const std::shared_ptr<node>& from, const node& busy) {
  const auto at = busy.receives_until - options_.latency;
  if (from->wakes_at >= timers_.now() && from->wakes_at <= at && from->wakes_at > std::chrono::nanoseconds{0}) return;
  from->wakes_at = at;
  after(at - timers_.now(), [from, at](impl& net, calls&) {
    if (from->wakes_at == at) from->wakes_at = std::chrono::nanoseconds{0};
    net.transmit(from);
  });
}

node* network::impl::receiver_of(const std::string& peer, const node& from) const {
  const auto found = nodes_.find(peer);
  return found == nodes_.end() || broken(from.name, found->second->name) ? nullptr : found->second.get();
}

void network::impl::arrive(std::uint64_t name, const piece& cut, const std::vector<protocols::memory_region>& memory,
                           calls& made) {
  const auto found = sends_.find(name);
  // A send that was given up has lost its memory: its bytes do not exist any more.
  if (found == sends_.end()) return;
  auto& what = *found->second;
  const auto to = nodes_.find(what.peer);
  if (to == nodes_.end()) return finish(name, "no fabric at " + what.peer, made);
  auto& target = *to->second;
  if (broken(what.from->name, target.name)) return;
  auto place = target.table.admit(what.key, cut);
  if (place.error.empty()) {
    for (std::size_t i = 0; i < memory.size(); ++i)
      std::memcpy(place.into[i].address, memory[i].address, memory[i].bytes);
    return tell_landed(name, cut, target, place.write, made);
  }
  answer(name, cut.bytes, place.error, target.name);
}

void network::impl::tell_landed(std::uint64_t name, const piece& cut, node& target, std::uint64_t write, calls& made) {
  for (auto& call : target.table.landed(write)) made.push_back(std::move(call));
  ++target.counted.messages_landed;
  target.counted.bytes_landed += cut.bytes;
  if (auto drop = drops_.find(target.name); drop != drops_.end() && drop->second > 0) {
    --drop->second;
    return;
  }
  answer(name, cut.bytes, {}, target.name);
}

void network::impl::answer(std::uint64_t name, std::uint64_t bytes, const std::string& error, const std::string& by) {
  after(options_.latency,
        [name, bytes, error, by](impl& net, calls& more) { net.acknowledge(name, bytes, error, by, more); });
}

// False where the way is not slow, nor was it for a message that has not arrived.
bool network::impl::carry(std::uint64_t name, const sending& what, const piece& cut,
                          const std::vector<protocols::memory_region>& memory, std::chrono::nanoseconds takes) {
  if (slow_.empty()) return false;
  const auto to = nodes_.find(what.peer);
  if (to == nodes_.end()) return false;
  const auto slow = slow_.find(to->second->name);
  const auto how = slow == slow_.end() ? slowness{} : slow->second;
  const auto now = timers_.now();
  auto& last = what.from->slow_until[what.peer];
  if (how.late.count() == 0 && how.open.count() == 0 && last < now + takes) return false;
  last = std::max(last + std::chrono::nanoseconds{1}, now + takes + how.late);
  // Spread evenly, and the same in every run: multiples of the golden ratio, of which the fraction counts.
  const auto share = (++carried_ * 0x9E3779B97F4A7C15ULL) >> 56U;
  auto message = std::make_shared<carried>(
      carried{name, what.from->name, what.peer, what.key, cut, {}, how.open * static_cast<std::int64_t>(share) / 255});
  message->bytes.reserve(cut.bytes);
  for (const auto& region : memory) {
    const auto* from = static_cast<const std::byte*>(static_cast<const void*>(region.address));
    message->bytes.insert(message->bytes.end(), from, from + region.bytes);
  }
  after(last - now, [message](impl& net, calls& made) { net.arrive(message, made); });
  return true;
}

void network::impl::arrive(const std::shared_ptr<carried>& message, calls& made) {
  const auto found = nodes_.find(message->peer);
  if (found == nodes_.end()) return finish(message->send, "no fabric at " + message->peer, made);
  const auto& to = found->second;
  if (broken(message->from, to->name)) return;
  const auto place = to->table.admit(message->key, message->cut);
  if (!place.error.empty()) return answer(message->send, message->cut.bytes, place.error, to->name);
  after(to->timers, message->open,
        [message, to, place](impl& net, calls& more) { net.write(message, to, place, more); });
}

void network::impl::write(const std::shared_ptr<carried>& message, const std::shared_ptr<node>& to,
                          const postings::admission& place, calls& made) {
  if (!to->table.writing(place.write)) return; // the fabric was closed
  const auto* from = message->bytes.data();
  for (const auto& region : place.into) {
    std::memcpy(region.address, from, region.bytes);
    from += region.bytes;
  }
  tell_landed(message->send, message->cut, *to, place.write, made);
}

void network::impl::acknowledge(std::uint64_t name, std::uint64_t bytes, const std::string& error,
                                const std::string& by, calls& made) {
  const auto found = sends_.find(name);
  if (found == sends_.end() || broken(found->second->from->name, by)) return;
  --found->second->pieces_open;
  if (error.empty()) found->second->from->counted.bytes_sent += bytes;
  if (!error.empty())
    finish(name, error, made);
  else if (found->second->pieces_open == 0 && found->second->cutter.ended())
    finish(name, {}, made);
}

void network::impl::finish(std::uint64_t name, const std::string& error, calls& made) {
  const auto found = sends_.find(name);
  if (found == sends_.end()) return;
  const auto ended = found->second;
  sends_.erase(found);
  ended->from->timers.cancel(ended->timer);
  auto& counted = ended->from->counted;
  --counted.sends_open;
  if (!error.empty()) ++counted.failed;
  made.emplace_back([ended, error] {
    ended->keep.reset();
    ended->done(error);
  });
}

bool network::impl::broken(const std::string& a, const std::string& b) const {
  return frozen_.contains(a) || frozen_.contains(b) || cuts_.contains(std::minmax(a, b));
}

void network::impl::cut(const std::string& a, const std::string& b, bool on) {
  const std::lock_guard lock{mutex_};
  const std::pair<std::string, std::string> link = std::minmax(a, b);
  if (on)
    cuts_.insert(link);
  else
    cuts_.erase(link);
}

void network::impl::freeze(const std::string& name, bool on) {
  const std::lock_guard lock{mutex_};
  if (on) {
    frozen_.insert(name);
    return;
  }
  frozen_.erase(name);
  for (const auto& [address, who] : nodes_)
    if (who->name == name) after(std::chrono::nanoseconds{0}, [who = who](impl& net, calls&) { net.transmit(who); });
}

void network::impl::drop(const std::string& name, std::uint32_t count) {
  const std::lock_guard lock{mutex_};
  drops_[name] = count;
}

void network::impl::slow(const std::string& name, std::chrono::nanoseconds late, std::chrono::nanoseconds open) {
  const std::lock_guard lock{mutex_};
  slow_[name] = {late, open};
}

fabric::counters network::impl::figures(const node& who) const {
  const std::lock_guard lock{mutex_};
  auto out = who.counted;
  out.postings_open = who.table.open_count();
  out.refused = who.table.refused_count();
  return out;
}

} // namespace godwit::transport::sim
