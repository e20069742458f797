#include "ucx/sender.hpp"

#include "ucx/address.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include <unistd.h>

namespace godwit::transport::ucx {

namespace {
constexpr const char* unused = "idle"; // why a link ends: no news to anybody
// Enough of the transport's segment is left for these: 12 bytes each.
constexpr std::uint32_t runs_per_piece = 32;
constexpr std::uint32_t regions_per_piece = 1024;
// UCX gathers so many parts without a copy over TCP (its UCX_TCP_MAX_IOV less one for the header).
constexpr std::size_t parts_max = 4;
// Sent in one turn, so that an urgent send that comes meanwhile does not wait for a whole window.
constexpr int bulk_per_turn = 2;
// Over a stream one large write carries a fifth more than four small ones, but an urgent send that comes meanwhile
// waits for it. They come in bursts: the writes are small as long as there was one not long ago.
constexpr std::size_t bytes_per_write_alone = std::size_t{1} << 20;
constexpr std::size_t bytes_per_write = std::size_t{256} << 10;
constexpr auto urgent_burst = std::chrono::milliseconds(20);

// Neighbours in memory become one part.
void join_neighbours(std::vector<protocols::memory_region>& regions) {
  std::size_t last = 0;
  for (std::size_t i = 1; i < regions.size(); ++i) {
    if (regions[last].address + regions[last].bytes == regions[i].address)
      regions[last].bytes += regions[i].bytes;
    else
      regions[++last] = regions[i];
  }
  if (!regions.empty()) regions.resize(last + 1);
}

/// The memory that has all of `spans` and can be mapped, where there is one.
wire::mapping around(const settings& options, const std::vector<protocols::memory_region>& spans) {
  if (!options.shared_memory || spans.empty()) return {};
  const auto found = options.shared_memory(spans.front().address);
  if (!found) return {};
  const auto address = reinterpret_cast<std::uint64_t>(found->address);
  for (const auto& span : spans) {
    const auto first = reinterpret_cast<std::uint64_t>(span.address);
    if (first < address || first + span.bytes > address + found->bytes) return {};
  }
  return {found->id, found->file, address, found->bytes};
}
} // namespace

void sender::submit(order what, time now) {
  const auto name = ++last_order_;
  const link_key where{what.peer, what.priority == transfer_priority::urgent};
  if (where.second) {
    ++urgent_open_;
    urgent_last_ = now;
  }
  orders_.emplace(name, std::move(what));
  auto found = links_.find(where);
  if (found == links_.end()) {
    if (const auto error = open_link(where, now); !error.empty()) return finish(name, error);
    found = links_.find(where);
  }
  found->second.queue.push_back(name);
}

std::string sender::open_link(const link_key& name, time now) {
  link made;
  made.peer = name.first;
  made.urgent = name.second;
  made.made = made.heard = made.pinged = made.used = now;
  if (name.first == shared_.address) {
    made.local = made.ready = true;
    links_.emplace(name, std::move(made));
    return {};
  }
  const auto where = parse_address(name.first);
  if (!where) return "not an address of this fabric's kind: " + name.first.substr(0, 100);
  made.channel = shared_.messages->connect(where->host, where->port);
  if (made.channel == 0) return "no connection to " + name.first + " can be made";
  wire::hello hello;
  if (shared_.broken->old_version) hello.version = 0;
  hello.from = shared_.identity;
  hello.to = where->identity;
  hello.urgent = name.second;
  if (shared_.options.cross_memory) {
    hello.pid = static_cast<std::uint64_t>(::getpid());
    // Page-locked memory is not always such as another process can read: the kernel refuses a device's mappings.
    hello.probe = reinterpret_cast<std::uint64_t>(
        shared_.copies->present() ? shared_.copies->sending().mark(shared_.identity) : shared_.identity.data());
  }
  shared_.messages->send(made.channel, wire::encode(hello), {}, {}, {});
  by_connection_.emplace(made.channel, name);
  links_.emplace(name, std::move(made));
  return {};
}

bool sender::fill(const link_key& where, link& to, time now) {
  int sent = 0;
  to.starved = false;
  while (to.ready && !to.queue.empty()) {
    const auto name = to.queue.front();
    const auto found = orders_.find(name);
    if (found == orders_.end()) { // ended meanwhile
      to.queue.pop_front();
      continue;
    }
    if (to.window_used >= shared_.options.window_bytes || to.open.size() >= 1024) return false;
    const auto how = way_of(to, found->second, now);
    const bool staged = found->second.device && how != way::keyed_offer;
    if (staged && !may_stage(to)) {
      to.starved = true;
      return false;
    }
    if (how == way::stream && !staged && to.stream->full()) return to.stream->writable();
    if (!to.urgent && sent++ == bulk_per_turn) return true;
    if (to.open.empty()) to.heard = to.pinged = now; // it owes us something from now on
    to.used = now;
    send_piece(where, to, name, found->second, how, now);
    if (found->second.cutter.ended()) to.queue.pop_front();
  }
  return false;
}

void sender::send_piece(const link_key& where, link& to, std::uint64_t name, order& from, way how, time now) {
  std::vector<protocols::memory_region> memory;
  wire::blocks m;
  m.keyed = how == way::keyed_offer;
  m.offered = m.keyed || how == way::offer;
  m.number = ++to.last_number;
  m.key = from.key;
  auto bytes_max = how == way::message ? shared_.options.bytes_per_message : shared_.options.bytes_per_pull;
  if (from.device) bytes_max = std::min(bytes_max, shared_.copies->sending().bytes());
  m.what = from.cutter.next({bytes_max, regions_per_piece, runs_per_piece}, memory);
  const bool staged = from.device && !m.keyed;
  const auto sent = staged ? std::nullopt : std::optional{now};
  auto& open = to.open.emplace(m.number, open_piece{name, m.what.bytes, staged, m.offered, sent}).first->second;
  if (m.keyed)
    open.held = std::make_shared<std::pair<decltype(from.keep), decltype(from.readable)>>(from.keep, from.readable);
  to.window_used += m.what.bytes;
  ++from.pieces_open;
  if (m.keyed)
    offer_keyed(to, std::move(m), memory, from);
  else if (staged)
    stage(where, to, {++last_stage_, name, std::move(m), how == way::stream, false, {}, {}}, std::move(memory));
  else
    transmit(to, m, std::move(memory), how == way::stream, from.keep);
}

void sender::transmit(link& to, const wire::blocks& piece, std::vector<protocols::memory_region> memory, bool streamed,
                      std::shared_ptr<void> keep) {
  auto m = piece;
  if (shared_.options.checksum) {
    m.summed = true;
    m.sum = wire::checksum(memory);
  }
  ++shared_.messages_sent;
  join_neighbours(memory);
  if (m.offered) {
    std::string spans(memory.size() * sizeof(wire::remote_span), '\0');
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const wire::remote_span span{reinterpret_cast<std::uint64_t>(memory[i].address), memory[i].bytes};
      std::memcpy(spans.data() + i * sizeof span, &span, sizeof span);
    }
    m.within = around(shared_.options, memory);
    shared_.messages->send(to.channel, wire::encode(m), std::move(spans), {}, {});
  } else if (streamed) {
    to.stream->add(m, memory, std::move(keep));
  } else if (memory.size() <= parts_max && m.what.bytes > message_at_most) {
    std::vector<std::pair<const void*, std::size_t>> parts;
    for (const auto& region : memory) parts.emplace_back(region.address, region.bytes);
    shared_.messages->send(to.channel, wire::encode(m), {}, std::move(parts), std::move(keep));
  } else {
    std::string packed;
    packed.reserve(m.what.bytes);
    for (const auto& region : memory) packed.append(reinterpret_cast<const char*>(region.address), region.bytes);
    shared_.messages->send(to.channel, wire::encode(m), std::move(packed), {}, {});
  }
}

// Each link has as many page-locked pieces as are free besides, at most: a peer that stands still keeps what it has.
bool sender::may_stage(const link& to) const {
  const auto on_loan = static_cast<std::uint32_t>(to.loan.use_count()) - 1;
  return on_loan < shared_.copies->sending().free_count(to.urgent);
}

void sender::stage(const link_key& where, link& to, staged_piece made, std::vector<protocols::memory_region> from) {
  if (made.what.what.bytes == 0) {
    made.ready = true;
    to.staged.push_back(std::move(made));
    return;
  }
  const auto piece = shared_.copies->sending().take(to.urgent);
  made.memory = {piece.get(), [piece, loan = to.loan](std::byte*) {}};
  made.parts = cut_like(piece, from);
  to.staged.push_back(made);
  shared_.copies->gather(std::move(from), made.memory, to.urgent, {orders_.at(made.order).keep},
                         [this, where, stage = made.stage](const std::string& error) { staged(where, stage, error); });
}

void sender::staged(const link_key& where, std::uint64_t stage, const std::string& error) {
  const auto found = links_.find(where);
  if (found == links_.end()) return;
  auto& of = found->second;
  const auto which =
      std::find_if(of.staged.begin(), of.staged.end(), [stage](const staged_piece& one) { return one.stage == stage; });
  if (which == of.staged.end()) return; // of a connection that was there before
  which->ready = true;
  if (error.empty()) return;
  const auto number = which->what.number;
  of.staged.erase(which);
  piece_done(of, number, "copying from the device: " + error);
}

bool sender::send_staged(link& to, time now) {
  int sent = 0;
  while (to.ready && !to.staged.empty()) {
    auto& next = to.staged.front();
    const auto number = next.what.number;
    if (!orders_.contains(next.order)) { // ended meanwhile, perhaps before its copy, which holds the piece
      to.staged.pop_front();
      piece_done(to, number, {});
      continue;
    }
    if (!next.ready) return false;
    if (next.streamed && to.stream->full()) return to.stream->writable();
    if (!to.urgent && sent++ == bulk_per_turn) return true;
    auto& open = to.open.at(number);
    open.sent = now;
    if (next.what.offered) open.memory = next.memory;
    transmit(to, next.what, std::move(next.parts), next.streamed, std::move(next.memory));
    to.staged.pop_front();
  }
  return false;
}

bool sender::copy_piece(link& to) {
  const auto name = to.queue.front();
  const auto found = orders_.find(name);
  if (found == orders_.end()) {
    to.queue.pop_front();
    return true;
  }
  auto& from = found->second;
  if (const bool into_device = shared_.table.on_device(from.key); into_device || from.device)
    return copy_on_device(to, name, from, into_device);
  std::vector<protocols::memory_region> memory;
  const auto what = from.cutter.next({shared_.options.bytes_per_pull, regions_per_piece, runs_per_piece}, memory);
  auto place = shared_.table.admit(from.key, what);
  if (place.error.empty() && on_device(place.into)) { // since it was asked about
    place.error = "posting " + to_string(from.key) + ": posted while it was being sent to";
    shared_.call_all(shared_.table.failed(place.write, place.error));
  }
  if (!place.error.empty()) {
    to.queue.pop_front();
    finish(name, place.error);
    return true;
  }
  for (std::size_t i = 0; i < memory.size(); ++i)
    std::memcpy(place.into[i].address, memory[i].address, memory[i].bytes);
  ++shared_.messages_sent;
  shared_.landed(what.bytes);
  shared_.call_all(shared_.table.landed(place.write));
  if (!from.cutter.ended()) return true;
  to.queue.pop_front();
  finish(name, {});
  return true;
}

bool sender::copy_on_device(link& to, std::uint64_t name, order& from, bool into_device) {
  const auto room = shared_.copies->room(from.device, into_device, to.urgent);
  if (!room) return false;
  std::vector<protocols::memory_region> memory;
  const auto what = from.cutter.next({*room, 1U << 16U, 1U << 16U}, memory);
  auto place = shared_.table.admit(from.key, what, true);
  if (from.cutter.ended() || !place.error.empty()) to.queue.pop_front();
  if (!place.error.empty()) {
    finish(name, place.error);
    return true;
  }
  ++shared_.messages_sent;
  ++from.pieces_open;
  shared_.copying.emplace(place.write, false);
  auto then = [this, name, write = place.write, bytes = what.bytes](const std::string& error) {
    copied(name, write, bytes, error);
  };
  if (what.bytes == 0)
    then({});
  else
    shared_.copies->move(
        std::move(memory), std::move(place.into), to.urgent, {from.keep, std::move(place.keep)},
        [this, write = place.write] { return shared_.table.writing(write); }, std::move(then));
  return true;
}

void sender::copied(std::uint64_t name, std::uint64_t write, std::uint64_t bytes, const std::string& error) {
  shared_.copying.erase(write);
  const auto found = orders_.find(name);
  // Whoever has been told that the send failed may have filled its memory with something else since.
  const auto wrong = !error.empty()           ? error
                     : found == orders_.end() ? "the sender gave up while its memory was copied"
                                              : "";
  if (wrong.empty()) shared_.landed(bytes);
  shared_.call_all(wrong.empty() ? shared_.table.landed(write) : shared_.table.failed(write, wrong));
  if (found == orders_.end()) return;
  --found->second.pieces_open;
  if (!wrong.empty())
    finish(name, wrong);
  else if (found->second.pieces_open == 0 && found->second.cutter.ended())
    finish(name, {});
}

std::string sender::received(connection from, const wire::message& m, time now) {
  const auto name = by_connection_.at(from);
  auto& of = links_.at(name);
  of.heard = now;
  if (const auto* welcome = std::get_if<wire::welcome>(&m)) {
    if (of.ready || of.connecting) return "a second welcome";
    of.pull = welcome->pull != 0 && shared_.options.cross_memory;
    of.reads = shared_.exposed != nullptr ? welcome->reads : std::uint8_t{0};
    of.ready = of.pull || shared_.streams == nullptr || welcome->stream_port == 0;
    if (!of.ready) open_stream(name, of, *welcome);
    return {};
  }
  if (const auto* rejection = std::get_if<wire::rejection>(&m))
    return "refused: " + (rejection->reason.empty() ? "without a reason" : rejection->reason);
  if (const auto* receipts = std::get_if<wire::receipts>(&m)) return settle(of, *receipts, now);
  if (const auto* refusal = std::get_if<wire::refusal>(&m)) {
    if (auto wrong = answerable(of, refusal->number); !wrong.empty()) return wrong;
    of.answered = now;
    if (refusal->unreadable) not_readable(of.peer, refusal->reason, now);
    piece_done(of, refusal->number, refusal->reason.empty() ? "refused" : refusal->reason);
    return {};
  }
  if (const auto* ping = std::get_if<wire::ping>(&m); ping != nullptr && ping->answer) return {};
  return "a message that does not belong here";
}

void sender::open_stream(const link_key& name, link& to, const wire::welcome& m) {
  const auto where = parse_address(name.first);
  boost::system::error_code wrong;
  const auto host = boost::asio::ip::make_address(where->host, wrong);
  const auto socket = to.connecting = std::make_shared<stream_socket::protocol::socket>(*shared_.io);
  socket->async_connect({host, m.stream_port}, [this, name, socket, token = m.stream_token,
                                                port = m.stream_port](boost::system::error_code error) {
    const auto found = links_.find(name);
    if (found == links_.end() || found->second.connecting != socket) return; // given up meanwhile
    auto& made = found->second;
    made.connecting.reset();
    made.ready = true; // without a stream where it cannot be had: then blocks travel as messages
    const bool late = error == boost::asio::error::operation_aborted || !socket->is_open(); // by `tick`
    if (!error && !late)
      made.stream =
          std::make_unique<stream_writer>(std::make_shared<stream_socket>(std::move(*socket), shared_.wake), token);
    else
      shared_.ends.tell_once("stream", name.first, shared_.messages->peer(made.channel),
                             "no stream to port " + std::to_string(port) + " there (" +
                                 (late ? "no answer in time" : error.message()) + "); blocks go as UCX messages",
                             std::chrono::steady_clock::now());
    shared_.wake();
  });
}

// Every number is answered once, after it was sent.
std::string sender::answerable(const link& of, std::uint64_t number) {
  const auto found = of.open.find(number);
  return found != of.open.end() && found->second.sent ? "" : "an answer to what was not sent, or a second one";
}

std::string sender::settle(link& of, const wire::receipts& m, time now) {
  if (!m.numbers.empty()) of.answered = now;
  if (m.what == wire::fate::landed) {
    for (const auto number : m.numbers) {
      if (auto wrong = answerable(of, number); !wrong.empty()) return wrong;
      // A refusal may come after the header alone.
      if (of.stream && of.stream->holds(number)) return "landed what was not sent to its end";
      piece_done(of, number, {});
    }
    return {};
  }
  if (m.what != wire::fate::pulled) return "a receipt that is the sender's to give";
  std::unordered_set<std::uint64_t> named;
  for (const auto number : m.numbers) {
    if (auto wrong = answerable(of, number); !wrong.empty()) return wrong;
    if (!of.open.at(number).offered) return "says that it has read what was not offered";
    if (!named.insert(number).second) return "says twice in a message that it has read the same";
  }
  wire::receipts confirmed, gone;
  confirmed.what = wire::fate::confirmed;
  gone.what = wire::fate::void_;
  for (const auto number : m.numbers) {
    const bool alive = orders_.contains(of.open.at(number).order);
    (alive ? confirmed : gone).numbers.push_back(number);
  }
  for (const auto* answer : {&confirmed, &gone})
    if (!answer->numbers.empty()) shared_.messages->send(of.channel, wire::encode(*answer), {}, {}, {});
  for (const auto number : m.numbers) piece_done(of, number, {});
  return {};
}

void sender::piece_done(link& of, std::uint64_t number, const std::string& error) {
  const auto found = of.open.find(number);
  if (found == of.open.end()) return;
  const auto ended = found->second;
  of.open.erase(found);
  of.window_used -= ended.bytes;
  if (const auto known = unreadable_.find(of.peer); ended.held && error.empty() && known != unreadable_.end())
    known->second.next = unreadable_for;
  const auto order = orders_.find(ended.order);
  if (order == orders_.end()) return; // timed out before
  --order->second.pieces_open;
  if (!error.empty())
    finish(ended.order, error);
  else if (order->second.pieces_open == 0 && order->second.cutter.ended())
    finish(ended.order, {});
}

void sender::finish(std::uint64_t name, const std::string& error) {
  const auto found = orders_.find(name);
  if (found == orders_.end()) return;
  auto ended = std::move(found->second);
  orders_.erase(found);
  const bool urgent = ended.priority == transfer_priority::urgent;
  if (urgent) --urgent_open_;
  // What the peer reads of it from now on does not count: the pieces are for others.
  if (const auto over = links_.find({ended.peer, urgent}); over != links_.end() && ended.pieces_open != 0)
    for (auto& [number, piece] : over->second.open)
      if (piece.order == name) piece.memory.reset();
  if (error.empty())
    shared_.bytes_sent += ended.cutter.bytes_total();
  else
    ++shared_.failed;
  --shared_.sends_open;
  shared_.calls.emplace_back([done = std::move(ended.done), keep = std::move(ended.keep), error]() mutable {
    keep.reset();
    done(error);
  });
}

bool sender::lost(connection which, const std::string& reason, bool gone_there) {
  const auto found = by_connection_.find(which);
  if (found == by_connection_.end()) return false;
  const auto& gone = links_.at(found->second);
  const bool used = !gone.open.empty() || !gone.queue.empty();
  drop(found->second, reason, gone_there);
  return used;
}

void sender::drop(link_key name, const std::string& reason, bool gone_there) {
  const auto found = links_.find(name);
  if (found == links_.end()) return;
  auto gone = std::move(found->second);
  links_.erase(found);
  by_connection_.erase(gone.channel);
  // An adapter that could not read may have ended the connection. Where this side did, for silence say, it has not.
  const bool read = std::ranges::any_of(gone.open, [](const auto& piece) { return piece.second.held != nullptr; });
  if (read && gone_there)
    not_readable(gone.peer, "the connection ended meanwhile: " + reason, std::chrono::steady_clock::now());
  for (auto& [number, piece] : gone.open)
    if (piece.held) shared_.messages->hold(gone.channel, std::move(piece.held));
  for (const auto& [number, piece] : gone.open) finish(piece.order, reason);
  for (const auto order : gone.queue) finish(order, reason);
}

// Memory that the receiver reads by itself counts only after our word; what we write is taken as it comes. Once a send
// has failed its memory may be filled with something else, which must not arrive: only the end of the connection keeps
// back what waits in it. What was copied from a device waits in memory of its own, as it was.
bool sender::may_be_read(const link_key& where, std::uint64_t name) const {
  const auto found = links_.find(where);
  if (found == links_.end() || found->second.pull || found->second.local) return false;
  return std::any_of(found->second.open.begin(), found->second.open.end(), [name](const auto& piece) {
    return piece.second.order == name && !piece.second.staged && !piece.second.offered;
  });
}

// A peer that gives signs of life and no answers would keep its window, and pieces in its stream, for good.
bool sender::answers_nothing(const link& to, time now) const {
  const auto late = now - shared_.options.peer_timeout;
  return to.answered < late && std::any_of(to.open.begin(), to.open.end(), [&](const auto& piece) {
           return piece.second.sent && *piece.second.sent < late && !orders_.contains(piece.second.order);
         });
}

bool sender::write_stream(link& to, time now) {
  const bool alone = urgent_open_ == 0 && now - urgent_last_ > urgent_burst;
  if (to.stream->writable()) to.stream->step(alone ? bytes_per_write_alone : bytes_per_write);
  return to.stream->writable();
}

void sender::give_up(const link_key& name, const std::string& reason, bool peer_gone) {
  if (const auto channel = links_.at(name).channel; channel != 0) {
    if (reason != unused) shared_.tell_end(channel, reason, peer_gone);
    shared_.messages->close(channel);
  }
  drop(name, reason);
}

bool sender::work(time now) {
  bool more = false;
  bool copied = false;
  std::vector<std::pair<link_key, std::string>> gone;
  for (const bool urgent : {true, false})
    for (auto& [name, to] : links_) {
      if (name.second != urgent) continue;
      if (!to.local) {
        more = send_staged(to, now) || more;
        more = fill(name, to, now) || more;
        if (to.stream) more = write_stream(to, now) || more;
        if (to.stream && !to.stream->error().empty()) gone.emplace_back(name, to.stream->error());
      } else if (!to.queue.empty()) {
        to.used = now;
        copied = copied || copy_piece(to); // false: it waits for copies, and others may go
        more = more || (copied && !to.queue.empty());
      }
    }
  // What was written has given back its memory.
  for (const auto& [name, to] : links_) {
    if (to.starved && may_stage(to)) more = true;
    if (!to.staged.empty() && to.staged.front().ready && to.ready && !(to.staged.front().streamed && to.stream->full()))
      more = true;
  }
  for (const auto& [name, reason] : gone) give_up(name, reason, links_.at(name).stream->gone());
  return more;
}

void sender::tick(time now) {
  std::vector<std::uint64_t> late;
  for (const auto& [name, what] : orders_)
    if (what.deadline <= now) late.push_back(name);
  for (const auto name : late) {
    const auto order = orders_.find(name);
    if (order == orders_.end()) continue; // ended with the link of another one
    const link_key where{order->second.peer, order->second.priority == transfer_priority::urgent};
    const bool read_on = may_be_read(where, name);
    finish(name, "timed out");
    if (read_on) give_up(where, "another send over this connection timed out while it was under way");
  }
  std::vector<std::pair<link_key, std::string>> gone;
  const auto& options = shared_.options;
  for (auto& [name, to] : links_) {
    if (!to.ready) {
      boost::system::error_code ignored;
      if (to.connecting && now - to.made > options.connect_timeout / 2) to.connecting->close(ignored); // do without
      if (now - to.made > options.connect_timeout) gone.emplace_back(name, "no connection in time");
      continue;
    }
    if (!to.open.empty()) {
      to.used = now;
      if (now - to.heard > options.peer_timeout)
        gone.emplace_back(name, "the peer does not answer");
      else if (answers_nothing(to, now))
        gone.emplace_back(name, "the peer answers nothing but that it lives");
      else if (now - to.heard > options.peer_timeout / 3 && now - to.pinged > options.peer_timeout / 3) {
        to.pinged = now;
        shared_.messages->send(to.channel, wire::encode(wire::ping{}), {}, {}, {});
      }
    } else if (to.queue.empty() && now - to.used > options.idle_timeout)
      gone.emplace_back(name, unused);
  }
  for (const auto& [name, reason] : gone) give_up(name, reason);
}

void sender::stop() {
  while (!orders_.empty()) finish(orders_.begin()->first, "the fabric was closed");
}

} // namespace godwit::transport::ucx
