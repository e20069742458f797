#include "ucx/worker.hpp"

#include "ucx/async_thread.hpp"
#include "ucx/silent_sockets.hpp"

#include <ucs/config/global_opts.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>

namespace godwit::transport::ucx {

namespace {

constexpr unsigned message_id = 1;
/// What has been offered over a connection is held for so long after its end.
constexpr auto held_for = std::chrono::seconds(1);
/// Messages to one peer that UCX has not passed on yet: far more than an honest one ever leaves lying.
constexpr std::size_t unsent_max = 16 * 1024;
// A message of `bytes_per_message` with its headers. Both sides must have the same: UCX aborts a receiver that gets a
// larger segment than it takes. So this belongs to the version of the wire, and is no setting.
constexpr std::size_t bytes_per_segment = std::size_t{264} << 10;

void check(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw std::runtime_error("UCX: " + what + ": " + ucs_status_string(status));
}

// IPv4 and IPv6, as numbers: names are the control channel's business.
bool parse(const std::string& host, std::uint16_t port, sockaddr_storage& out, socklen_t& size) {
  std::memset(&out, 0, sizeof out);
  auto& v4 = reinterpret_cast<sockaddr_in&>(out);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out);
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    size = sizeof v4;
    return true;
  }
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    size = sizeof v6;
    return true;
  }
  return false;
}

// HOST:PORT, as people write it.
std::string named(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (address.ss_family == AF_INET && ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text) != nullptr)
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  if (address.ss_family == AF_INET6 && ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text) != nullptr)
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
  return "an unknown address";
}

/// One address has one text.
std::string canonical(const std::string& host) {
  in6_addr bytes{};
  char text[INET6_ADDRSTRLEN] = {};
  const bool six = ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
  return six && ::inet_ntop(AF_INET6, &bytes, text, sizeof text) != nullptr ? text : host;
}

/// An address label (eth0:1) without what is behind the colon, which only labels the address.
std::string device_named(std::string_view label) { return std::string(label.substr(0, label.find(':'))); }

using addresses = std::unique_ptr<::ifaddrs, void (*)(::ifaddrs*)>;

/// Of this machine's interfaces; throws where the system does not say, as when descriptors are short.
addresses all_addresses() {
  ::ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    throw std::runtime_error(std::string("asking for the addresses of this machine's interfaces: ") +
                             std::strerror(errno));
  return {first, ::freeifaddrs};
}

/// The network interface that has this address; empty where none has.
std::string device_of(const std::string& spelt) {
  const auto host = canonical(spelt);
  const auto all = all_addresses();
  std::string found;
  const bool loopback = host == "::1" || host.starts_with("127."); // all of 127/8 is there
  for (const auto* one = all.get(); one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (one->ifa_addr->sa_family == AF_INET)
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
    else if (one->ifa_addr->sa_family == AF_INET6)
      ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, text, sizeof text);
    if (host == text || (loopback && (one->ifa_flags & IFF_LOOPBACK) != 0)) found = device_named(one->ifa_name);
  }
  return found;
}

/// Empty: it has none.
std::string first_ipv4(const std::string& device) {
  const auto all = all_addresses();
  std::string found;
  for (const auto* one = all.get(); one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || device_named(one->ifa_name) != device)
      continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
    found = text;
  }
  return found;
}

/// The interface at which UCX's tcp is to listen; empty: at all, as `listen` says. It takes the interface's first IPv4
/// address wherever there is one, and all interfaces where it is told of none: throws where that is not what `listen`
/// says, since others would reach it where they should not, or not where they are told to.
std::string interface_of(const std::string& listen) {
  sockaddr_storage address;
  socklen_t size = 0;
  if (!parse(listen, 0, address, size) || listen == "0.0.0.0" || canonical(listen) == "::") return {};
  auto device = device_of(listen);
  if (device.empty())
    throw wrong_settings("no interface of this machine has the address " + listen +
                         ", so that UCX would listen at all of them; listen at an address of one");
  const auto first = first_ipv4(device);
  // And 1.13 writes an IPv6 peer's address over the end of what it keeps an IPv4 one in: the process dies with its
  // first connection.
  if (!first.empty() && address.ss_family == AF_INET6)
    throw wrong_settings("UCX reaches IPv6 only over an interface without IPv4 addresses, and " + device +
                         ", which has " + listen + ", has some; listen at one of these");
  if (!first.empty() && first != listen)
    throw wrong_settings("UCX listens at an interface's first IPv4 address only, that of " + device + " is " + first +
                         ", and not " + listen + "; listen at " + first);
  return device;
}

} // namespace

bool leaves_host_by_tcp_only(std::string_view transports) noexcept {
  constexpr std::array<std::string_view, 8> of_one_host{"self", "posix", "sysv", "cma", "knem", "xpmem", "sm", "shm"};
  bool tcp = false;
  while (!transports.empty()) {
    const auto end = std::min(transports.find(','), transports.size());
    const auto one = transports.substr(0, end);
    if (one == "tcp")
      tcp = true;
    else if (std::ranges::find(of_one_host, one) == of_one_host.end())
      return false;
    transports.remove_prefix(std::min(end + 1, transports.size()));
  }
  return tcp;
}

std::string library_version() { return std::string("UCX ") + ucp_get_version_string(); }

/// A message on its way out; lives until UCX does not read it any more.
struct worker::sending {
  worker* owner = nullptr;
  connection to = 0;
  std::list<sending>::iterator self;
  std::string header;
  std::string owned;
  std::vector<ucp_dt_iov_t> parts;
  std::shared_ptr<void> keep;
};

worker::worker(const settings& options, events& to, bool reads_by_messages)
    : options_(options), to_(to), reads_by_messages_(reads_by_messages) {
  try {
    if (!options_.log_level.empty())
      check(ucs_global_opts_set_value("LOG_LEVEL", options_.log_level.c_str()), "log level " + options_.log_level);
    // Other transports of networks name their devices otherwise, so they keep their choice.
    const bool only_tcp = leaves_host_by_tcp_only(options_.transports);
    const auto device = only_tcp ? interface_of(options_.listen) : std::string();
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "reading the configuration");
    const auto set = [&](const char* name, const std::string& value) {
      const auto status = ucp_config_modify(config, name, value.c_str());
      if (status != UCS_OK) ucp_config_release(config);
      check(status, std::string(name) + "=" + value);
    };
    set("TLS", options_.transports);
    // By itself UCX's tcp also listens on every other interface of the host.
    if (!device.empty()) set("NET_DEVICES", device);
    // Blocks go out of the memory in which they lie, without a copy by UCX.
    set("ZCOPY_THRESH", "8K");
    // Of its tcp, whose prefix this call does not know before 1.15, and asks for later.
    const auto set_tcp = [&](const std::string& name, const std::string& value) {
      set(((version_at_least(1, 15) ? "TCP_" : "") + name).c_str(), value);
    };
    set_tcp("RX_SEG_SIZE", std::to_string(bytes_per_segment));
    // Otherwise its tcp connects and says its first word within one call, and the process is aborted (an assertion of
    // tcp_ep.c) where the peer ends in between. And a host that falls silent right then would hold this thread.
    set_tcp("CONN_NB", "y");
    if (options_.port != 0 && only_tcp) {
      // Where its tcp waits for the connections that a connection over the listener makes.
      set_tcp("PORT_RANGE",
              std::to_string(options_.port + 2) + "-" + std::to_string(options_.port + ports_of_fabric - 1));
      set(version_at_least(1, 15) ? "TCP_CM_REUSEADDR" : "REUSEADDR", "y"); // a process just killed held the port
    }
    reads_ = options_.reads == remote_reading::always ? reads_by_messages || may_read(options_.transports)
                                                      : ucx::reads_devices(options_);
    no_messages_ = reads_ && !reads_by_messages && can_forbid_messages();
    if (no_messages_)
      set("PROTO_EMULATION_ENABLE", "n");
    else if (reads_)
      set("PROTO_ENABLE", "n"); // from 1.16 on: these read by messages over connections that tell of errors
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    if (reads_) parameters.features |= UCP_FEATURE_RMA;
    ucp_context_h context = nullptr;
    const auto status = ucp_init(&parameters, config, &context);
    ucp_config_release(config);
    if (status == UCS_ERR_NO_DEVICE)
      throw wrong_settings("UCX: no transport of \"" + options_.transports + "\" works here");
    check(status, "starting");
    context_ = {context, [](ucp_context_h back) { ucp_cleanup(back); }};
    ask_for_devices();
    ucp_worker_params_t single{};
    single.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    single.thread_mode = UCS_THREAD_MODE_SINGLE;
    const auto before = listening_ports();
    check(ucp_worker_create(context_.get(), &single, &worker_), "creating a worker");
    check(ucp_worker_get_efd(worker_, &event_fd_), "event file descriptor");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = message_id;
    handler.cb = &worker::on_message;
    handler.arg = this;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    check(ucp_worker_set_am_recv_handler(worker_, &handler), "message handler");
    listen(options_.listen, options_.port);
    ports_ = listening_ports(); // that of its tcp UCX does not tell
    for (const auto others : before) ports_.erase(others);
    ports_.insert(port_);
  } catch (...) {
    destroy();
    throw;
  }
}

worker::~worker() {
  destroy();
  // What was not sent by now is not read any more either: sending_ lets go of it.
}

void worker::destroy() noexcept {
  // What did not end in time ends now, on whatever thread: users' is let go here.
  std::vector<std::shared_ptr<void>> held;
  for (auto& one : sending_) held.push_back(std::move(one.keep));
  if (listener_ != nullptr) {
    // A peer that connects right now must not find one without the other.
    run_on_async_thread([this] {
      ucp_listener_destroy(listener_);
      ucp_worker_destroy(worker_);
    });
  } else if (worker_ != nullptr) {
    ucp_worker_destroy(worker_);
  }
  listener_ = nullptr;
  worker_ = nullptr;
  endpoints_.clear();
  by_handle_.clear();
  held_.clear();
  reading_.forget();
  context_.reset(); // what UCX was told of may hold it for longer
}

void worker::listen(const std::string& host, std::uint16_t port) {
  sockaddr_storage address;
  socklen_t size = 0;
  if (!parse(host, port, address, size)) throw wrong_settings("UCX: " + host + " is not an IP address to listen at");
  ucp_listener_params_t parameters{};
  parameters.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
  parameters.sockaddr.addrlen = size;
  parameters.conn_handler.cb = &worker::on_request;
  parameters.conn_handler.arg = this;
  check(ucp_listener_create(worker_, &parameters, &listener_), "listening at " + named(address));
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  check(ucp_listener_query(listener_, &attributes), "port");
  // the port is at the same place for both families
  port_ = ntohs(reinterpret_cast<const sockaddr_in&>(attributes.sockaddr).sin_port);
}

void worker::ask_for_devices() {
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  constexpr auto host = std::uint64_t{1} << static_cast<unsigned>(UCS_MEMORY_TYPE_HOST);
  reads_devices_ =
      no_messages_ && ucp_context_query(context_.get(), &found) == UCS_OK && (found.memory_types & ~host) != 0;
}

bool worker::forbids_messages() const noexcept { return no_messages_ || (reads_ && reads_by_messages_); }

bool worker::reads(connection which, bool no_messages) const {
  const auto found = endpoints_.find(which);
  if (!reads_ || found == endpoints_.end() || found->second.failed) return false;
  if (reads_by_messages_) return true;
  char* text = nullptr;
  std::size_t bytes = 0;
  auto* const into = ::open_memstream(&text, &bytes);
  if (into == nullptr) return false;
  ucp_ep_print_info(found->second.handle, into);
  std::fclose(into);
  const bool out = reads_by_lane({text, bytes}, no_messages);
  std::free(text);
  return out;
}

connection worker::add(ucp_ep_params_t& parameters, std::string peer) {
  parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = &worker::on_error;
  parameters.err_handler.arg = this;
  ucp_ep_h handle = nullptr;
  if (ucp_ep_create(worker_, &parameters, &handle) != UCS_OK) return 0;
  endpoints_[++last_] = {handle, std::move(peer)};
  by_handle_[handle] = last_;
  return last_;
}

connection worker::connect(const std::string& host, std::uint16_t port) {
  sockaddr_storage address;
  socklen_t size = 0;
  if (endpoints_.size() >= options_.connections_max || !parse(host, port, address, size)) return 0;
  const bool six = options_.listen.find(':') != std::string::npos;
  if (six != (address.ss_family == AF_INET6)) return 0; // see where NET_DEVICES is set
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
  parameters.sockaddr.addrlen = size;
  return add(parameters, named(address));
}

void worker::on_request(ucp_conn_request_h request, void* self) {
  auto& me = *static_cast<worker*>(self);
  if (me.endpoints_.size() >= me.options_.connections_max) {
    ucp_listener_reject(me.listener_, request);
    return;
  }
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  ucp_conn_request_attr_t from{};
  from.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  const bool known = ucp_conn_request_query(request, &from) == UCS_OK;
  try {
    if (const auto made = me.add(parameters, known ? named(from.client_address) : "an unknown address"); made != 0)
      me.fresh_.push_back(made);
  } catch (const std::exception&) { // no memory: it hears nothing, and gives up in its time
  }
}

void worker::on_error(void* self, ucp_ep_h which, ucs_status_t status) {
  auto& me = *static_cast<worker*>(self);
  const auto found = me.by_handle_.find(which);
  if (found != me.by_handle_.end()) me.fail(found->second, ucs_status_string(status), true);
}

void worker::fail(connection which, const char* why, bool gone) noexcept {
  try {
    auto& failed = endpoints_.at(which);
    if (failed.failed) return;
    lost_.push_back({which, why, gone});
    failed.failed = true;
  } catch (const std::exception&) { // no memory: who waits for it waits for its deadline
  }
}

ucs_status_t worker::on_message(void* self, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                                const ucp_am_recv_param_t* how) {
  auto& me = *static_cast<worker*>(self);
  if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_ERR_REJECTED; // none of ours is sent like that
  if ((how->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return UCS_OK;
  const auto found = me.by_handle_.find(how->reply_ep);
  if (found == me.by_handle_.end() || me.endpoints_.at(found->second).failed) return UCS_OK;
  const auto from = found->second;
  try {
    me.tell_fresh(); // a connection is told before what comes over it
    me.to_.received(from, {static_cast<const char*>(header), header_bytes}, {static_cast<const char*>(data), bytes});
  } catch (const std::exception& failure) { // what follows would make no sense
    me.fail(from, failure.what(), false);
  }
  return UCS_OK;
}

void worker::send(connection to, std::string header, std::string owned,
                  std::vector<std::pair<const void*, std::size_t>> parts, std::shared_ptr<void> keep) {
  const auto found = endpoints_.find(to);
  if (found == endpoints_.end() || found->second.failed) return;
  if (found->second.unsent >= unsent_max) {
    found->second.failed = true;
    lost_.push_back({to, "it reads nothing of what it is sent", false});
    return;
  }
  ++found->second.unsent;
  sending_.emplace_front();
  auto& out = sending_.front();
  out.owner = this;
  out.to = to;
  out.self = sending_.begin();
  out.header = std::move(header);
  out.owned = std::move(owned);
  out.keep = std::move(keep);
  if (parts.empty() && !out.owned.empty()) parts.emplace_back(out.owned.data(), out.owned.size());
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.user_data = &out;
  how.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
  how.cb.send = [](void* request, ucs_status_t, void* data) {
    ucp_request_free(request);
    auto* sent = static_cast<sending*>(data); // a failure is told by the endpoint
    sent->owner->ended(sent->self);
  };
  const void* buffer = nullptr;
  std::size_t count = 0;
  if (parts.size() == 1) {
    buffer = parts.front().first;
    count = parts.front().second;
  } else if (!parts.empty()) {
    for (const auto& [address, bytes] : parts) out.parts.push_back({const_cast<void*>(address), bytes});
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    how.datatype = UCP_DATATYPE_IOV;
    buffer = out.parts.data();
    count = out.parts.size();
  }
  auto* request =
      ucp_am_send_nbx(found->second.handle, message_id, out.header.data(), out.header.size(), buffer, count, &how);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) { // ended within the call: its callback is not called
    ended(out.self);
    if (request != nullptr && !found->second.failed) {
      found->second.failed = true;
      lost_.push_back({to, ucs_status_string(UCS_PTR_STATUS(request))});
    }
  }
}

void worker::ended(std::list<sending>::iterator which) {
  if (const auto found = endpoints_.find(which->to); found != endpoints_.end()) --found->second.unsent;
  sending_.erase(which);
}

void worker::read(connection from, remote_reads::order what) {
  const auto found = endpoints_.find(from);
  if (found == endpoints_.end() || found->second.failed)
    reading_.refuse(std::move(what), "the sender is gone");
  else
    reading_.begin(found->second.handle, std::move(what));
}

// What it still says is not told: nobody knows it any more.
void worker::close(connection which) {
  to_close_.push_back(which);
  if (const auto found = endpoints_.find(which); found != endpoints_.end()) found->second.failed = true;
}

void worker::hold(connection which, std::shared_ptr<void> what) {
  if (const auto found = endpoints_.find(which); found != endpoints_.end())
    found->second.held.push_back(std::move(what));
}

std::string worker::peer(connection which) const {
  const auto found = endpoints_.find(which);
  return found == endpoints_.end() ? std::string() : found->second.peer;
}

void worker::tell_fresh() {
  while (!fresh_.empty()) {
    const auto made = fresh_.front();
    fresh_.pop_front();
    to_.connected(made);
  }
}

void worker::reap() {
  tell_fresh();
  while (!lost_.empty()) {
    const auto [which, reason, gone] = std::move(lost_.front());
    lost_.pop_front();
    to_close_.push_back(which);
    to_.lost(which, reason, gone);
  }
  auto closed = std::move(to_close_);
  to_close_.clear();
  for (const auto which : closed) {
    const auto found = endpoints_.find(which);
    if (found == endpoints_.end()) continue;
    const auto handle = found->second.handle;
    if (!found->second.held.empty())
      held_.emplace_back(std::chrono::steady_clock::now() + held_for, std::move(found->second.held));
    endpoints_.erase(found);
    by_handle_.erase(handle);
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.flags = UCP_EP_CLOSE_FLAG_FORCE;
    how.user_data = this;
    how.cb.send = [](void* request, ucs_status_t, void* self) {
      --static_cast<worker*>(self)->closing_;
      ucp_request_free(request);
    };
    ++closing_;
    auto* request = ucp_ep_close_nbx(handle, &how);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) --closing_;
  }
}

void worker::let_go(std::chrono::steady_clock::time_point now) {
  while (!held_.empty() && held_.front().first <= now) held_.pop_front();
}

bool worker::progress() {
  bool any = false;
  // Bounded, so that commands and timers get their turn.
  for (int i = 0; i < 2 && ucp_worker_progress(worker_) != 0; ++i) any = true;
  if (due()) {
    any = true;
    reap();
  }
  return reading_.run() || any;
}

bool worker::arm() { return !due() && !reading_.due() && ucp_worker_arm(worker_) == UCS_OK; }

std::size_t worker::end_silent() {
  if (!descriptors_run_short()) return 0;
  std::size_t ended = 0;
  run_on_async_thread([&] { ended = ucx::end_silent(ports_, options_.connect_timeout); });
  return ended;
}

void worker::stop() {
  for (const auto& entry : endpoints_) to_close_.push_back(entry.first);
  reap();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while ((closing_ != 0 || !sending_.empty() || !reading_.empty()) && std::chrono::steady_clock::now() < until) {
    if (progress() || !arm()) continue;
    pollfd readable{event_fd_, POLLIN, 0};
    ::poll(&readable, 1, 20);
  }
}

} // namespace godwit::transport::ucx
