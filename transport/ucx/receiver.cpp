#include "ucx/receiver.hpp"

#include "ucx/cross_memory.hpp"

#include <algorithm>
#include <cstring>

namespace godwit::transport::ucx {

namespace {
/// Offers of one connection that wait to be read, or were read and wait for the sender's word. Its window allows far
/// fewer.
constexpr std::size_t pulls_max = 4096;
constexpr std::size_t spans_max = 4096;
constexpr std::size_t receipts_per_window = 2;
/// No pull begins later in a turn: what lies in caches is read in larger parts than what does not, and messages wait
/// for the same time.
constexpr auto reading_time = std::chrono::microseconds(50);
} // namespace

void receiver::connected(connection from, time now) { peers_[from].heard = now; }

std::string receiver::received(connection from, const wire::message& m, std::string_view payload, time now) {
  auto& who = peers_.at(from);
  if (who.rejected) return {}; // what it still says does not keep it open
  who.heard = now;
  if (const auto* hello = std::get_if<wire::hello>(&m)) {
    if (who.greeted) return "a second hello";
    greet(from, who, *hello);
    return {};
  }
  if (!who.greeted) return "no hello";
  if (const auto* blocks = std::get_if<wire::blocks>(&m))
    return blocks->offered ? queue(from, who, *blocks, payload) : place(from, who, *blocks, payload);
  if (const auto* receipts = std::get_if<wire::receipts>(&m)) {
    settle(who, *receipts);
    return {};
  }
  if (const auto* ping = std::get_if<wire::ping>(&m); ping != nullptr && !ping->answer) {
    shared_.messages->send(from, wire::encode(wire::ping{true}), {}, {}, {});
    return {};
  }
  return "a message that does not belong here";
}

void receiver::greet(connection from, peer& who, const wire::hello& m) {
  if (m.version != wire::version)
    return reject(from, who,
                  "the fabric speaks version " + std::to_string(wire::version) + ", the sender " +
                      std::to_string(m.version));
  if (m.to != shared_.identity) return reject(from, who, "the fabric at this address is another one");
  who.greeted = true;
  who.urgent = m.urgent;
  if (shared_.options.cross_memory && can_read(m.pid, m.probe, m.from)) who.pid = m.pid;
  wire::welcome answer;
  answer.pull = who.pid != 0 ? 1 : 0;
  if (who.pid == 0 && shared_.streams != nullptr) {
    answer.stream_port = shared_.streams->port();
    answer.stream_token = shared_.streams->expect(from);
  }
  shared_.messages->send(from, wire::encode(answer), {}, {}, {});
}

// The sender closes when it has read this; `tick` does where it does not.
void receiver::reject(connection from, peer& who, const std::string& reason) {
  who.rejected = true;
  wire::rejection answer;
  answer.reason = reason;
  shared_.messages->send(from, wire::encode(answer), {}, {}, {});
}

void receiver::refuse(connection to, std::uint64_t number, const std::string& reason) {
  wire::refusal answer;
  answer.number = number;
  answer.reason = reason;
  shared_.messages->send(to, wire::encode(answer), {}, {}, {});
}

bool receiver::arrived_well(const wire::blocks& m, const postings::admission& place) {
  auto& breaking = shared_.broken->corrupt_pieces;
  if (!place.into.empty() && breaking.load() > 0 && breaking.fetch_sub(1) > 0)
    place.into.front().address[0] ^= std::byte{1};
  return !m.summed || wire::checksum(place.into) == m.sum;
}

std::string receiver::place(connection from, peer& who, const wire::blocks& m, std::string_view payload) {
  if (payload.size() != m.what.bytes) return "a payload of another size than announced";
  const auto place = shared_.table.admit(m.key, m.what);
  if (!place.error.empty()) {
    refuse(from, m.number, place.error);
    return {};
  }
  for (const auto& region : place.into) {
    std::memcpy(region.address, payload.data(), region.bytes);
    payload.remove_prefix(region.bytes);
  }
  written(from, who, m, place);
  return {};
}

void receiver::written(connection from, peer& who, const wire::blocks& m, const postings::admission& place) {
  if (!arrived_well(m, place)) {
    shared_.call_all(shared_.table.failed(place.write, "a wrong checksum"));
    return refuse(from, m.number, "a wrong checksum");
  }
  shared_.landed(m.what.bytes);
  shared_.call_all(shared_.table.landed(place.write));
  note(who, who.landed, m);
  if (who.urgent) send_receipts(from, who);
}

void receiver::arrived(connection of, std::shared_ptr<stream_socket> stream) {
  const auto found = peers_.find(of);
  if (found == peers_.end() || found->second.stream) return;
  found->second.stream = std::make_unique<stream_reader>(std::move(stream));
  streams_.insert(of);
}

postings::admission receiver::begin(const wire::blocks& m) {
  auto place = shared_.table.admit(m.key, m.what);
  if (!place.error.empty()) refuse(streaming_, m.number, place.error);
  return place;
}

void receiver::end(const wire::blocks& m, const postings::admission& place) {
  written(streaming_, peers_.at(streaming_), m, place);
}

// One read a turn of each urgent stream and of one other, in turns.
bool receiver::read_streams() {
  std::vector<connection> next;
  connection bulk = 0;
  for (const auto which : streams_) {
    const auto& who = peers_.at(which);
    if (!who.stream->readable()) continue;
    if (who.urgent)
      next.push_back(which);
    else if (bulk == 0 || (bulk <= last_bulk_ && which > last_bulk_))
      bulk = which;
  }
  if (bulk != 0) next.push_back(last_bulk_ = bulk);
  for (const auto which : next) {
    streaming_ = which;
    auto& who = peers_.at(which);
    const auto wrong = who.stream->step(*this);
    who.heard = std::chrono::steady_clock::now();
    if (!wrong.empty()) give_up(which, wrong);
  }
  return !next.empty();
}

void receiver::give_up(connection which, const std::string& reason) {
  lost(which, reason);
  shared_.messages->close(which);
}

std::string receiver::queue(connection from, peer& who, const wire::blocks& m, std::string_view payload) {
  if (who.pid == 0) return "an offer of memory that cannot be read";
  pull next{from, m, {}};
  if (payload.size() % sizeof(wire::remote_span) != 0 || payload.size() / sizeof(wire::remote_span) > spans_max)
    return "a list of the wrong size";
  next.spans.resize(payload.size() / sizeof(wire::remote_span));
  if (!payload.empty()) std::memcpy(next.spans.data(), payload.data(), payload.size());
  std::uint64_t left = m.what.bytes;
  for (const auto& span : next.spans) {
    if (span.bytes > left) return "more memory than announced";
    left -= span.bytes;
  }
  if (left != 0) return "less memory than announced";
  if (who.queued + who.unsettled.size() >= pulls_max) return "too many offers";
  ++who.queued;
  (who.urgent ? urgent_ : bulk_).push_back(std::move(next));
  return {};
}

void receiver::run(const pull& next) {
  const auto found = peers_.find(next.from);
  if (found == peers_.end()) return;
  auto& who = found->second;
  --who.queued;
  const auto place = shared_.table.admit(next.what.key, next.what.what);
  if (!place.error.empty()) return refuse(next.from, next.what.number, place.error);
  auto error = read_memory(who.pid, next.spans, place.into);
  if (error.empty() && !arrived_well(next.what, place)) error = "a wrong checksum";
  if (!error.empty()) {
    shared_.call_all(shared_.table.failed(place.write, error));
    return refuse(next.from, next.what.number, error);
  }
  shared_.landed(next.what.what.bytes);
  who.unsettled.emplace(next.what.number, place.write);
  note(who, who.pulled, next.what);
  if (who.urgent) send_receipts(next.from, who);
}

// What was read counts once its sender says that it had not given it up before: from then on the memory may have been
// anybody's.
void receiver::settle(peer& who, const wire::receipts& m) {
  for (const auto number : m.numbers) {
    const auto found = who.unsettled.find(number);
    if (found == who.unsettled.end()) continue;
    const auto write = found->second;
    who.unsettled.erase(found);
    shared_.call_all(m.what == wire::fate::confirmed
                         ? shared_.table.landed(write)
                         : shared_.table.failed(write, "the sender gave up while its memory was read"));
  }
}

void receiver::lost(connection which, const std::string& reason) {
  const auto found = peers_.find(which);
  if (found == peers_.end()) return;
  for (const auto& [number, write] : found->second.unsettled)
    shared_.call_all(shared_.table.failed(write, "the sender is gone: " + reason));
  if (const auto& stream = found->second.stream; stream && stream->writing() != 0)
    shared_.call_all(shared_.table.failed(stream->writing(), "the sender is gone: " + reason));
  if (shared_.streams != nullptr) shared_.streams->forget(which);
  streams_.erase(which);
  peers_.erase(found);
}

void receiver::note(peer& who, std::vector<std::uint64_t>& receipts, const wire::blocks& m) {
  receipts.push_back(m.number);
  who.unreported += m.what.bytes;
  who.news = true;
}

void receiver::send_receipts(connection to, peer& who) {
  who.unreported = 0;
  for (auto* numbers : {&who.landed, &who.pulled}) {
    for (std::size_t i = 0; i < numbers->size(); i += wire::receipts_max) {
      wire::receipts m;
      m.what = numbers == &who.landed ? wire::fate::landed : wire::fate::pulled;
      const auto end = std::min(numbers->size(), i + wire::receipts_max);
      m.numbers.assign(numbers->begin() + static_cast<std::ptrdiff_t>(i),
                       numbers->begin() + static_cast<std::ptrdiff_t>(end));
      shared_.messages->send(to, wire::encode(m), {}, {}, {});
    }
    numbers->clear();
  }
}

bool receiver::work() {
  const auto until = std::chrono::steady_clock::now() + reading_time;
  do {
    auto& queue = urgent_.empty() ? bulk_ : urgent_;
    if (queue.empty()) break;
    const auto next = std::move(queue.front());
    queue.pop_front();
    run(next);
  } while (busy() && std::chrono::steady_clock::now() < until);
  const bool reading = read_streams();
  // A receipt costs a system call here, one there, and the answer to it: they wait for company while more arrives,
  // which is at most until the sender has used up the larger part of its window.
  bool owed = false;
  for (auto& [which, who] : peers_) {
    if (who.landed.empty() && who.pulled.empty()) continue;
    if (!who.news || who.unreported >= shared_.options.window_bytes / receipts_per_window) send_receipts(which, who);
    owed = owed || !who.landed.empty() || !who.pulled.empty();
    who.news = false;
  }
  return busy() || owed || reading;
}

void receiver::tick(time now) {
  std::vector<connection> silent;
  for (const auto& [which, who] : peers_)
    // A sender closes what it does not use long before; one of another kind, or one that vanished, does not.
    if (now - who.heard > (who.greeted ? 3 * shared_.options.idle_timeout : shared_.options.connect_timeout))
      silent.push_back(which);
  for (const auto which : silent) give_up(which, "it is silent");
}

} // namespace godwit::transport::ucx
