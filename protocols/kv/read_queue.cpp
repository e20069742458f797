#include <godwit/protocols/kv/read_queue.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>

namespace godwit::protocols {

read_queue::entry& read_queue::add(const chunk_name& name, std::uint64_t since, state where) {
  auto& made = entries_[name];
  made.since = since;
  made.number = ++tickets_;
  made.where = where;
  made.place = list_of(where).insert(list_of(where).end(), name);
  return made;
}

void read_queue::expect(const chunk_name& name, std::uint64_t since) {
  if (const auto found = entries_.find(name); found != entries_.end()) {
    found->second.since = std::max(found->second.since, since);
    return;
  }
  if (entries_.size() < most_ && expected_.size() < most_expected_) add(name, since, state::expected);
}

std::optional<read_queue::ticket> read_queue::await(const chunk_name& name, std::uint64_t since) {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    if (entries_.size() >= most_) return std::nullopt;
    add(name, since, state::awaited);
    found = entries_.find(name);
  }
  auto& wanted = found->second;
  wanted.since = std::max(wanted.since, since);
  ++wanted.waiters;
  if (wanted.where == state::expected) {
    awaited_.splice(awaited_.end(), expected_, wanted.place);
    wanted.where = state::awaited;
  }
  return wanted.number;
}

void read_queue::give_up(const chunk_name& name, ticket which) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.number != which) return;
  auto& left = found->second;
  ensure(left.waiters > 0, "read_queue: who gives up has waited");
  if (--left.waiters > 0 || left.where == state::begun) return;
  if (expected_.size() >= most_expected_) {
    awaited_.erase(left.place);
    entries_.erase(found);
    return;
  }
  expected_.splice(expected_.end(), awaited_, left.place);
  left.where = state::expected;
}

std::optional<read_queue::order> read_queue::next(bool awaited) {
  auto& from = awaited || !awaited_.empty() ? awaited_ : expected_;
  if (from.empty()) return std::nullopt;
  auto& chosen = entries_.at(from.front());
  const order out{from.front(), chosen.since, chosen.where == state::awaited};
  from.pop_front();
  chosen.where = state::begun;
  return out;
}

void read_queue::ended(const chunk_name& name) {
  const auto found = entries_.find(name);
  ensure(found != entries_.end() && found->second.where == state::begun, "read_queue: what ends has begun");
  entries_.erase(found);
}

void read_queue::check() const {
  std::size_t awaited = 0, expected = 0;
  for (const auto& [name, e] : entries_) {
    awaited += e.where == state::awaited ? 1 : 0;
    expected += e.where == state::expected ? 1 : 0;
    ensure(e.where == state::begun || *e.place == name, "read_queue: everything has its place");
    ensure((e.waiters > 0) == (e.where == state::awaited) || e.where == state::begun,
           "read_queue: what somebody waits for is not expected only");
  }
  ensure(awaited == awaited_.size() && expected == expected_.size(), "read_queue: lists have what they should");
  ensure(entries_.size() <= most_ && expected <= most_expected_, "read_queue: there are not too many");
}

} // namespace godwit::protocols
