#include "ucx/receiver.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace godwit::transport::ucx {

namespace {
/// Offers of one connection that wait to be read, or were read and wait for the sender's word. Its window allows far
/// fewer.
constexpr std::size_t pulls_max = 4096;
constexpr std::size_t receipts_per_window = 2;
/// Messages of a connection that wait for memory, in windows of ours; its sender's may be another.
constexpr std::size_t parked_windows = 4;
/// No pull begins later in a turn: what lies in caches is read in larger parts than what does not, and messages wait
/// for the same time.
constexpr auto reading_time = std::chrono::microseconds(50);

/// What is wrong with a list of spans that has to have so many bytes.
template <class Span> std::string compare(const std::vector<Span>& spans, std::uint64_t bytes) {
  for (const auto& span : spans) {
    if (span.bytes > bytes) return "more memory than announced";
    bytes -= span.bytes;
  }
  return bytes == 0 ? "" : "less memory than announced";
}
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

bool receiver::is_of_this_host(const std::string& address) const {
  return address.starts_with(shared_.options.listen + ":");
}

void receiver::greet(connection from, peer& who, const wire::hello& m) {
  if (m.version != wire::version)
    return reject(from, who,
                  "the fabric speaks version " + std::to_string(wire::version) + ", the sender " +
                      std::to_string(m.version));
  if (m.to != shared_.identity) return reject(from, who, "the fabric at this address is another one");
  who.greeted = true;
  who.urgent = m.urgent;
  if (shared_.options.cross_memory && can_read(m.pid, m.probe, m.from))
    who.memory.emplace(m.pid);
  else if (shared_.options.cross_memory && m.pid != 0 && is_of_this_host(shared_.messages->peer(from)))
    shared_.ends.tell_once(
        "memory", m.from, shared_.messages->peer(from),
        "its memory cannot be read though it is on this host (another user, container or ptrace_scope); "
        "blocks go over the network",
        std::chrono::steady_clock::now());
  wire::welcome answer;
  answer.pull = who.memory ? 1 : 0;
  if (shared_.exposed != nullptr) answer.reads = shared_.messages->forbids_messages() ? 2 : 1;
  if (!who.memory && shared_.streams != nullptr) {
    answer.stream_port = shared_.streams->port();
    answer.stream_token = shared_.streams->expect(from);
  }
  shared_.messages->send(from, wire::encode(answer), {}, {}, {});
}

// The sender closes when it has read this; `tick` does where it does not.
void receiver::reject(connection from, peer& who, const std::string& reason) {
  who.rejected = true;
  shared_.tell_end(from, reason);
  wire::rejection answer;
  answer.reason = reason;
  shared_.messages->send(from, wire::encode(answer), {}, {}, {});
}

void receiver::refuse(connection to, std::uint64_t number, const std::string& reason, bool unreadable) {
  wire::refusal answer;
  answer.number = number;
  answer.reason = reason;
  answer.unreadable = unreadable;
  shared_.messages->send(to, wire::encode(answer), {}, {}, {});
}

bool receiver::arrived_well(const wire::blocks& m, const std::vector<protocols::memory_region>& bytes) {
  auto& breaking = shared_.broken->corrupt_pieces;
  if (!bytes.empty() && breaking.load() > 0 && breaking.fetch_sub(1) > 0) bytes.front().address[0] ^= std::byte{1};
  return !m.summed || wire::checksum(bytes) == m.sum;
}

bool receiver::admit(connection from, const wire::blocks& m, postings::admission& place, bool copied) {
  place = shared_.table.admit(m.key, m.what, copied);
  if (!place.error.empty()) {
    refuse(from, m.number, place.error);
    return false;
  }
  if (!on_device(place.into) || m.what.bytes <= shared_.copies->arriving().bytes()) return true;
  place.error = "posting " + to_string(m.key) + ": " + std::to_string(m.what.bytes) +
                " bytes in one message; memory of a device takes " + std::to_string(shared_.copies->arriving().bytes());
  fail(from, m, place.write, place.error);
  return false;
}

void receiver::fail(connection from, const wire::blocks& m, std::uint64_t write, const std::string& reason) {
  shared_.call_all(shared_.table.failed(write, reason));
  refuse(from, m.number, reason);
}

std::string receiver::place(connection from, peer& who, const wire::blocks& m, std::string_view payload) {
  if (payload.size() != m.what.bytes) return "a payload of another size than announced";
  postings::admission place;
  if (!admit(from, m, place)) return {};
  if (on_device(place.into)) return place_on_device(from, who, m, payload, std::move(place));
  for (const auto& region : place.into) {
    std::memcpy(region.address, payload.data(), region.bytes);
    payload.remove_prefix(region.bytes);
  }
  written(from, who, m, place);
  return {};
}

std::string receiver::place_on_device(connection from, peer& who, const wire::blocks& m, std::string_view payload,
                                      postings::admission place) {
  auto& parked = who.urgent ? parked_urgent_ : parked_bulk_;
  const auto staged = parked.empty() ? shared_.copies->arriving().take(who.urgent) : nullptr;
  if (staged) {
    std::memcpy(staged.get(), payload.data(), payload.size());
    scatter(from, m, place, staged, who.urgent, false);
    return {};
  }
  if (who.parked + payload.size() > parked_windows * shared_.options.window_bytes) {
    shared_.call_all(shared_.table.failed(place.write, "the sender sends more than it may"));
    return "it sends more than it may before it hears from us";
  }
  who.parked += payload.size();
  parked.push_back({from, m, std::move(place), std::string(payload)});
  return {};
}

void receiver::unpark() {
  for (auto* parked : {&parked_urgent_, &parked_bulk_}) {
    const bool urgent = parked == &parked_urgent_;
    while (!parked->empty()) {
      const auto staged = shared_.copies->arriving().take(urgent);
      if (!staged) break;
      const auto one = std::move(parked->front());
      parked->pop_front();
      peers_.at(one.from).parked -= one.payload.size();
      std::memcpy(staged.get(), one.payload.data(), one.payload.size());
      pulls_first_ = true;
      scatter(one.from, one.what, one.place, staged, urgent, false);
    }
  }
}

void receiver::scatter(connection from, const wire::blocks& m, const postings::admission& place,
                       const pinned_piece& staged, bool urgent, bool pulled) {
  if (!arrived_well(m, cut_like(staged, place.into))) return fail(from, m, place.write, "a wrong checksum");
  shared_.copying.emplace(place.write, false);
  shared_.copies->scatter(staged, place.into, urgent, {place.keep},
                          [this, from, m, write = place.write, pulled](const std::string& error) {
                            copied(from, m, write, pulled, error.empty() ? "" : "copying to the device: " + error);
                          });
}

void receiver::copied(connection from, const wire::blocks& m, std::uint64_t write, bool pulled,
                      const std::string& wrong, bool unreadable) {
  const bool withdrawn = shared_.copying.at(write);
  shared_.copying.erase(write);
  const auto found = peers_.find(from);
  if (!wrong.empty()) {
    shared_.call_all(shared_.table.failed(write, wrong));
    if (found != peers_.end()) refuse(from, m.number, wrong, unreadable);
    return;
  }
  if (pulled && found == peers_.end()) {
    shared_.call_all(shared_.table.failed(write, "the sender is gone"));
    return;
  }
  shared_.landed(m.what.bytes);
  if (!pulled)
    shared_.call_all(shared_.table.landed(write));
  else if (withdrawn)
    shared_.call_all(shared_.table.failed(write, "withdrawn"));
  else if (!found->second.unsettled.emplace(m.number, write).second)
    shared_.call_all(shared_.table.failed(write, "a second offer of the same number"));
  if (found == peers_.end()) return;
  note(found->second, pulled ? found->second.pulled : found->second.landed, m);
  if (found->second.urgent) send_receipts(from, found->second);
}

bool receiver::withdrawn(std::uint64_t write) {
  if (const auto found = shared_.copying.find(write); found != shared_.copying.end()) {
    const auto read = reads_.find(write);
    if (read != reads_.end() && read->second.staged) { // its place is not written
      read->second.dead = true;
      read->second.place.keep.reset();
      shared_.copying.erase(found);
      return false;
    }
    found->second = true;
    if (read != reads_.end()) read->second.withdrawn = std::chrono::steady_clock::now();
    return true;
  }
  for (const auto which : streams_)
    if (auto& who = peers_.at(which); who.stream->writing() == write) {
      who.staged.reset();
      who.staged_keep.reset();
    }
  for (auto* parked : {&parked_urgent_, &parked_bulk_})
    std::erase_if(*parked, [&](const parked_message& one) {
      if (one.place.write != write) return false;
      peers_.at(one.from).parked -= one.payload.size();
      refuse(one.from, one.what.number, "no posting " + to_string(one.what.key) + " any more");
      return true;
    });
  for (auto* queue : {&urgent_, &bulk_})
    if (!queue->empty() && queue->front().place && queue->front().place->write == write)
      queue->front().place->keep.reset();
  for (auto& [which, who] : peers_)
    if (!who.keyed.empty() && who.keyed.front().place && who.keyed.front().place->write == write)
      who.keyed.front().place->keep.reset();
  return false;
}

void receiver::written(connection from, peer& who, const wire::blocks& m, const postings::admission& place) {
  if (!arrived_well(m, place.into)) return fail(from, m, place.write, "a wrong checksum");
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

std::optional<receiver::arrival> receiver::begin(const wire::blocks& m) {
  auto& who = peers_.at(streaming_);
  arrival out;
  const bool staged = m.what.bytes != 0 && shared_.table.on_device(m.key);
  if (staged) who.staged = shared_.copies->arriving().take(who.urgent);
  if (staged && !who.staged) return std::nullopt;
  if (admit(streaming_, m, out.place) && on_device(out.place.into) != staged) {
    out.place.error = "posting " + to_string(m.key) + ": posted while it was being sent to";
    fail(streaming_, m, out.place.write, out.place.error);
  }
  if (!out.place.error.empty()) {
    who.staged.reset();
    return out;
  }
  out.into = out.place.into;
  if (who.staged) {
    out.into = {{who.staged.get(), static_cast<std::size_t>(m.what.bytes), protocols::memory_kind::pinned}};
    who.staged_keep = std::move(out.place.keep);
    who.staged_since = std::chrono::steady_clock::now();
  }
  return out;
}

void receiver::end(const wire::blocks& m, const postings::admission& place) {
  auto& who = peers_.at(streaming_);
  if (!who.staged) return written(streaming_, who, m, place);
  auto into = place;
  into.keep = std::move(who.staged_keep);
  scatter(streaming_, m, into, std::exchange(who.staged, nullptr), who.urgent, false);
}

// Unanswered it would stay in its sender's window.
void receiver::unwanted(const wire::blocks& m) {
  refuse(streaming_, m.number, "no posting " + to_string(m.key) + " any more");
}

// One read a turn of each urgent stream and of one other, in turns.
bool receiver::read_streams() {
  std::vector<connection> next;
  connection bulk = 0;
  for (const auto which : streams_) {
    const auto& who = peers_.at(which);
    const auto& stream = *who.stream;
    const bool goes_on = stream.waiting() ? shared_.copies->arriving().free(who.urgent) ||
                                                !shared_.table.on_device(stream.key()) // withdrawn since
                                          : stream.readable();
    if (!goes_on) continue;
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
    if (!wrong.empty()) give_up(which, wrong, who.stream->gone());
  }
  return !next.empty();
}

void receiver::give_up(connection which, const std::string& reason, bool gone) {
  // The end of a stream may be seen before that of its connection, and is as little news where nobody used it.
  const bool used = lost(which, reason);
  if (used || !gone) shared_.tell_end(which, reason, gone);
  shared_.messages->close(which);
}

std::string receiver::queue(connection from, peer& who, const wire::blocks& m, std::string_view payload) {
  if (m.keyed ? shared_.exposed == nullptr : !who.memory) return "an offer of memory that cannot be read";
  pull next{from, m, {}, {}, {}};
  std::string wrong;
  if (m.keyed) {
    auto list = wire::unpack_keyed(payload);
    if (!list) return "a list with keys that is none";
    next.keyed = std::move(*list);
    wrong = compare(next.keyed.spans, m.what.bytes);
  } else {
    if (payload.size() % sizeof(wire::remote_span) != 0 || payload.size() / sizeof(wire::remote_span) > wire::spans_max)
      return "a list of the wrong size";
    next.spans.resize(payload.size() / sizeof(wire::remote_span));
    if (!payload.empty()) std::memcpy(next.spans.data(), payload.data(), payload.size());
    wrong = compare(next.spans, m.what.bytes);
  }
  if (!wrong.empty()) return wrong;
  if (who.queued + who.keyed.size() + who.unsettled.size() >= pulls_max) return "too many offers";
  if (m.keyed) {
    who.reads = who.reads || shared_.messages->reads(from, shared_.messages->forbids_messages());
    if (who.reads)
      who.keyed.push_back(std::move(next));
    else
      refuse(from, m.number, "UCX reads nothing over this connection", true);
    return {};
  }
  ++who.queued;
  (who.urgent ? urgent_ : bulk_).push_back(std::move(next));
  return {};
}

bool receiver::place_pull(pull& next, bool copied) {
  if (!next.place) return admit(next.from, next.what, next.place.emplace(), copied);
  if (shared_.table.writing(next.place->write)) return true;
  refuse(next.from, next.what.number, "no posting " + to_string(next.what.key) + " any more");
  return false;
}

bool receiver::run(pull& next) {
  auto& who = peers_.at(next.from);
  if (!place_pull(next, false)) {
    --who.queued;
    return true;
  }
  const auto number = next.what.number;
  auto& place = *next.place;
  const bool device = on_device(place.into);
  const auto staged = device ? shared_.copies->arriving().take(who.urgent) : nullptr;
  if (device && !staged) return false;
  --who.queued;
  const auto bytes = static_cast<std::size_t>(next.what.what.bytes);
  auto error =
      device ? who.memory->read(next.what.within, next.spans, {{staged.get(), bytes, protocols::memory_kind::pinned}})
             : who.memory->read(next.what.within, next.spans, place.into);
  if (error.empty() && !device && !arrived_well(next.what, place.into)) error = "a wrong checksum";
  if (!error.empty()) {
    fail(next.from, next.what, place.write, error);
    return true;
  }
  if (device) {
    pulls_first_ = false;
    scatter(next.from, next.what, place, staged, who.urgent, true);
    return true;
  }
  if (!who.unsettled.emplace(number, place.write).second) {
    fail(next.from, next.what, place.write, "a second offer of the same number");
    return true;
  }
  shared_.landed(bytes);
  note(who, who.pulled, next.what);
  if (who.urgent) send_receipts(next.from, who);
  return true;
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

bool receiver::lost(connection which, const std::string& reason) {
  const auto found = peers_.find(which);
  if (found == peers_.end()) return false;
  const auto& stream = found->second.stream;
  bool used = !found->second.unsettled.empty() || (stream && stream->writing() != 0);
  for (const auto& [number, write] : found->second.unsettled)
    shared_.call_all(shared_.table.failed(write, "the sender is gone: " + reason));
  if (stream && stream->writing() != 0)
    shared_.call_all(shared_.table.failed(stream->writing(), "the sender is gone: " + reason));
  // What it has sent and not been answered for goes at once: another connection of it would add as much again.
  const auto over = [&](connection from, const postings::admission* place) {
    if (from == which && place != nullptr)
      shared_.call_all(shared_.table.failed(place->write, "the sender is gone: " + reason));
    return from == which;
  };
  for (auto* parked : {&parked_urgent_, &parked_bulk_})
    used = std::erase_if(*parked, [&](const parked_message& one) { return over(one.from, &one.place); }) != 0 || used;
  for (auto* queue : {&urgent_, &bulk_})
    used = std::erase_if(*queue, [&](const pull& one) { return over(one.from, one.place ? &*one.place : nullptr); }) !=
               0 ||
           used;
  used = used || !found->second.keyed.empty();
  for (const auto& one : found->second.keyed) (void)over(one.from, one.place ? &*one.place : nullptr);
  // These end with the connection, which is being closed.
  used = std::ranges::any_of(reads_, [which](const auto& one) { return one.second.from == which; }) || used;
  if (shared_.streams != nullptr) shared_.streams->forget(which);
  streams_.erase(which);
  peers_.erase(found);
  return used;
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

bool receiver::run_first(std::deque<pull>& queue) {
  if (queue.empty() || !run(queue.front())) return false;
  queue.pop_front();
  return true;
}

// What waits for memory goes on when a copy has ended. Bulk may pass urgent ones that wait: it goes to the host's
// memory then.
bool receiver::run_pulls(time until) {
  while (run_first(urgent_) || run_first(bulk_))
    if (std::chrono::steady_clock::now() >= until) return busy();
  return false;
}

bool receiver::work() {
  const auto until = std::chrono::steady_clock::now() + reading_time;
  // All ask for the same page-locked pieces: streams go first every other time, and of the others those who did not
  // get the last one.
  streams_first_ = !streams_first_;
  bool reading = streams_first_ && read_streams();
  const bool pulls_first = pulls_first_;
  if (!pulls_first) unpark();
  const bool pulls = run_pulls(until);
  const bool started = start_reads(std::max(until, std::chrono::steady_clock::now()));
  if (pulls_first) unpark();
  if (!streams_first_) reading = read_streams();
  // A receipt costs a system call here, one there, and the answer to it: they wait for company while more arrives,
  // which is at most until the sender has used up the larger part of its window.
  bool owed = false;
  for (auto& [which, who] : peers_) {
    if (who.landed.empty() && who.pulled.empty()) continue;
    if (!who.news || who.unreported >= shared_.options.window_bytes / receipts_per_window) send_receipts(which, who);
    owed = owed || !who.landed.empty() || !who.pulled.empty();
    who.news = false;
  }
  return pulls || started || owed || reading;
}

bool receiver::midway(time since) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](connection which) {
    const auto& who = peers_.at(which);
    return who.stream->midway() && who.heard > since;
  });
}

void receiver::tick(time now) {
  std::vector<std::pair<connection, const char*>> gone;
  for (const auto& [which, who] : peers_)
    // A sender closes what it does not use long before; one of another kind, or one that vanished, does not.
    if (now - who.heard > (who.greeted ? 3 * shared_.options.idle_timeout : shared_.options.connect_timeout))
      gone.emplace_back(which, "it is silent");
  for (const auto which : streams_) {
    // One that does not come to the end of a piece keeps it from others only as long as they do not want it.
    const auto& who = peers_.at(which);
    const bool late = who.staged && now - who.staged_since > shared_.options.peer_timeout;
    if (late && !shared_.copies->arriving().free(false)) gone.emplace_back(which, "it is too slow with a piece");
  }
  for (const auto& [write, read] : reads_) {
    const bool late = now - read.since > shared_.options.peer_timeout ||
                      (read.withdrawn && now - *read.withdrawn > shared_.options.peer_timeout / 3);
    if (late && peers_.contains(read.from)) gone.emplace_back(read.from, "it does not let itself be read");
  }
  for (const auto& [which, reason] : gone)
    if (peers_.contains(which)) give_up(which, reason);
}

} // namespace godwit::transport::ucx
