#include "main/member_process.hpp"

#include "main/head_options.hpp"
#include "main/kv_store_options.hpp"
#include "main/lora_options.hpp"
#include "main/migration_parts.hpp"
#include "main/speculation_options.hpp"
#include "main/swap_options.hpp"
#include "main/thread_room.hpp"

#include <godwit/runtime/machine.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace godwit::main {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds poll_interval{20};
/// For connecting and the first words. Longer than a head that is merely busy takes.
constexpr milliseconds connect_timeout{5'000};
/// The fabric's: as many processes as a head takes in.
constexpr std::uint32_t connections_of_cluster = 1024;

} // namespace

protocols::expected<endpoint, std::string> parse_head(const std::string& text) {
  if (text.empty())
    return protocols::unexpected(std::string("--join HOST:PORT is missing: the control port of a 'godwit serve'"));
  auto head = parse_endpoint(text);
  if (!head || head->port == 0)
    return protocols::unexpected("--join: '" + text + "' is not HOST:PORT, such as 127.0.0.1:7070");
  return std::move(*head);
}

std::string process_name(const serve_settings& settings) {
  return settings.cluster.name.empty() ? host_and_pid() : settings.cluster.name;
}

head_connector::head_connector(runtime::actor_system& system, endpoint head)
    : system_(system), head_(std::move(head)), thread_([this] { work(); }) {}

head_connector::~head_connector() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

actors::head_finder head_connector::finder() {
  return [this](std::function<void(actors::found_head)> done) {
    {
      const std::lock_guard lock(mutex_);
      order_ = std::move(done);
    }
    wanted_.notify_one();
  };
}

void head_connector::work() {
  for (;;) {
    std::function<void(actors::found_head)> done;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return stopping_ || order_; });
      if (stopping_) return;
      done = std::exchange(order_, {});
    }
    try {
      done(system_.remote<actors::node_interface>(head_.host, head_.port, connect_timeout));
    } catch (const std::exception& failure) { // for want of memory: the next attempt may have it
      done(runtime::async::error{runtime::async::error_code::failed, failure.what()});
    }
  }
}

void member_board::set(const actors::member_state& state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

actors::member_state member_board::get() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::optional<start_error> member_board::wait_joined(const std::string& head, const std::function<bool()>& give_up,
                                                     const std::function<bool()>& alive) const {
  for (;;) {
    const auto now = get();
    if (now.joins > 0) return std::nullopt;
    if (now.failures > 0) return start_error{"cannot join " + head + ": " + now.error};
    if (!alive()) return start_error{actors_ended_line};
    if (give_up()) return start_error{};
    std::this_thread::sleep_for(poll_interval);
  }
}

member_process::member_process(const serve_settings& settings, const endpoint& head, gpu::model::model_directory model,
                               actors::model_identity identity, std::shared_ptr<transport::fabric> fabric,
                               std::shared_ptr<transport::disk> disk,
                               std::shared_ptr<runtime::async::connection_gate> gate, runtime::log::logger log,
                               tracing* records, chosen_device cuda)
    : settings_(settings), records_(records), head_(head.host + ":" + std::to_string(head.port)),
      context_length_(identity.context_length), log_(log.component("member")), fabric_(std::move(fabric)),
      disk_(std::move(disk)) {
  loader_ = std::make_unique<loader>(model, settings_, std::move(cuda), log);
  system_ =
      std::make_unique<runtime::actor_system>(make_system_settings(settings_, true, std::move(gate), log, records));
  connector_ = std::make_unique<head_connector>(*system_, head);
  auto o = make_member_options(settings_, model, std::move(identity), loader_->factory(), fabric_, log);
  o.llumlet.store.disk = disk_;
  o.address = process_name(settings_);
  while (o.key == 0) o.key = runtime::entropy();
  o.find_head = connector_->finder();
  const std::shared_ptr<const void> alive = std::make_shared<char>();
  alive_ = alive;
  o.on_state = [to = board_, alive](const actors::member_state& state) { to->set(state); };
  if (records_ != nullptr) o.trace = records_->control();
  member_ = system_->spawn<actors::member>(std::move(o));
}

member_process::~member_process() {
  system_->shutdown(milliseconds(5000)); // nobody looks for the head any more
  connector_.reset();
  board_->set({}); // nobody is told anything any more
  member_ = {};
  if (records_ != nullptr) records_->settle();
  fabric_.reset(); // its callbacks post to actors of the system, dead or not
  disk_.reset();   // as do its
}

protocols::expected<std::unique_ptr<member_process>, start_error>
member_process::start(const serve_settings& settings, const endpoint& head, gpu::model::model_directory model,
                      runtime::log::logger log, tracing* records, chosen_device cuda) {
  (void)allow_connections(connections_of_cluster, "what a large cluster takes", log.component("member"));
  if (auto short_of = check_threads(threads_of(settings))) return protocols::unexpected(std::move(*short_of));
  if (auto wrong = open_draft(settings, model)) return protocols::unexpected(std::move(*wrong));
  auto identity = identity_of(settings, model);
  if (!identity) return protocols::unexpected(identity.error());
  if (auto wrong = check_kv_store(settings, *identity)) return protocols::unexpected(std::move(*wrong));
  if (auto wrong = check_swap(settings, *identity)) return protocols::unexpected(std::move(*wrong));
  if (auto wrong = check_lora(settings)) return protocols::unexpected(std::move(*wrong));
  auto gate = make_gate(settings, log);
  if (!gate) return protocols::unexpected(gate.error());
  auto fabric = make_fabric(settings, head.host, log, cuda);
  if (!fabric) return protocols::unexpected(fabric.error());
  auto disk = make_kv_store_disk(settings, *identity, log);
  if (!disk) return protocols::unexpected(disk.error());
  auto out = std::unique_ptr<member_process>(new member_process(settings, head, std::move(model), std::move(*identity),
                                                                std::move(*fabric), std::move(*disk), std::move(*gate),
                                                                std::move(log), records, std::move(cuda)));
  if (records != nullptr)
    if (auto error = records->begin()) return protocols::unexpected(std::move(*error));
  return out;
}

std::optional<start_error> member_process::wait_joined(const std::function<bool()>& give_up) {
  return board_->wait_joined(head_, give_up, [this] { return alive(); });
}

std::optional<start_error> member_process::wait_ready(const std::function<bool()>& give_up) {
  for (;;) {
    const auto now = state();
    if (now.ready == settings_.instances.count) {
      for (const auto& pair : now.pairs) {
        const auto status = system_->ask(pair.llumlet, std::chrono::seconds(5), actors::status_query{});
        if (!status) continue; // it went down meanwhile, or the head did
        if (auto error = check_memory(*status, context_length_)) return error;
      }
      return std::nullopt;
    }
    if (auto error = loader_->error()) return start_error{std::move(*error)};
    if (!alive()) return start_error{actors_ended_line};
    if (give_up()) return start_error{};
    std::this_thread::sleep_for(poll_interval);
  }
}

bool member_process::drain(milliseconds timeout, const std::function<bool()>& hurry) {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + timeout;
  const auto at_first = state();
  if (!at_first.head) return false;
  for (std::size_t i = 0; i < at_first.pairs.size(); ++i) {
    if (at_first.pairs[i].stopped) continue;
    const auto id = protocols::instance_id{at_first.first.value() + static_cast<std::uint32_t>(i)};
    auto order = actors::drain_instance{id, true};
    order.leaves = true;
    // Whoever ends a head and its members at once may tell the head a moment later.
    constexpr milliseconds head_told_within{1000};
    for (const auto asked = clock::now();;) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now());
      if (left <= milliseconds(0) || hurry()) return false;
      const auto answer = system_->ask(at_first.head, std::min(left, connect_timeout), order);
      if (!answer) return false;
      if (answer->error.empty()) break;
      if (!answer->later || clock::now() - asked >= head_told_within) {
        log_.info("instance {} does not drain: {}", id.value(), answer->error); // what the others got rid of is here
        return false;
      }
      std::this_thread::sleep_for(poll_interval);
    }
  }
  for (;;) {
    const auto now = state();
    if (!now.joined || now.joins != at_first.joins) return false; // another head knows nothing of it
    // Those that started meanwhile, too.
    if (std::ranges::all_of(now.pairs, &actors::pair_entry::stopped)) return true;
    if (clock::now() >= deadline || hurry()) return false;
    std::this_thread::sleep_for(poll_interval);
  }
}

void member_process::leave() {
  (void)system_->ask(member_, std::chrono::seconds(6), actors::retire{}); // it says itself where the head is silent
}

} // namespace godwit::main
