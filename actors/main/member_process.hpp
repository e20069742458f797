#pragma once

#include "main/loader.hpp"
#include "main/parts.hpp"
#include "main/settings.hpp"
#include "main/tracing.hpp"

#include <godwit/actors/member.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/fabric.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace godwit::main {

/// Looks for a head by its address, on a thread of its own: CAF's way to another node blocks.
class head_connector {
public:
  head_connector(runtime::actor_system& system, endpoint head);
  head_connector(const head_connector&) = delete;
  head_connector& operator=(const head_connector&) = delete;
  ~head_connector();
  /// For member_options::find_head. The connector must outlive the member.
  [[nodiscard]] actors::head_finder finder();

private:
  void work();
  runtime::actor_system& system_;
  endpoint head_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::function<void(actors::found_head)> order_; // at most one: a member makes one attempt at a time
  bool stopping_ = false;
  std::thread thread_;
};

/// How it stands with a process's member: written on the member's context, read by other threads.
class member_board {
public:
  void set(const actors::member_state& state);
  [[nodiscard]] actors::member_state get() const;
  /// Until the first attempt to join `head` has ended; `give_up` is asked a few times a second, as is `alive`. The line
  /// says what went wrong; empty: given up.
  [[nodiscard]] std::optional<start_error> wait_joined(const std::string& head, const std::function<bool()>& give_up,
                                                       const std::function<bool()>& alive) const;

private:
  mutable std::mutex mutex_;
  actors::member_state state_;
};

/// What `--join` says, or what is wrong with it, in one line.
[[nodiscard]] protocols::expected<endpoint, std::string> parse_head(const std::string& text);

/// What a process of a cluster is called where it was given no name.
[[nodiscard]] std::string process_name(const serve_settings& settings);

/// A process that brings instances to a head elsewhere: what `godwit node --join` runs.
class member_process {
public:
  /// Begins to join; the model is loaded once the head has said yes. `records` must live longer; null: nothing is
  /// recorded.
  [[nodiscard]] static protocols::expected<std::unique_ptr<member_process>, start_error>
  start(const serve_settings& settings, const endpoint& head, gpu::model::model_directory model,
        runtime::log::logger log, tracing* records = nullptr, chosen_device cuda = {});
  member_process(const member_process&) = delete;
  member_process& operator=(const member_process&) = delete;
  ~member_process();

  /// Until the first attempt to join has ended. `give_up` is asked a few times a second. The line says what went wrong;
  /// empty: given up. Later losses of the head are mended by the process itself.
  [[nodiscard]] std::optional<start_error> wait_joined(const std::function<bool()>& give_up);
  /// Until every instance takes requests, whatever becomes of the head meanwhile.
  [[nodiscard]] std::optional<start_error> wait_ready(const std::function<bool()>& give_up);
  /// Tells the head that this process ends and has it take all instances out, so that their requests move to others, KV
  /// and all, and waits until all are stopped. False: some were not after `timeout`, or the head is gone, or has
  /// nowhere to move them to, or somebody is in a `hurry`, which is asked a few times a second.
  bool drain(std::chrono::milliseconds timeout, const std::function<bool()>& hurry);
  /// Tells the head and stops the instances. Requests that are here still are computed anew elsewhere.
  void leave();
  [[nodiscard]] actors::member_state state() const { return board_->get(); }
  /// False: its actors have ended, by nobody's order of this process.
  [[nodiscard]] bool alive() const noexcept { return !alive_.expired(); }

private:
  member_process(const serve_settings& settings, const endpoint& head, gpu::model::model_directory model,
                 actors::model_identity identity, std::shared_ptr<transport::fabric> fabric,
                 std::shared_ptr<transport::disk> disk, std::shared_ptr<runtime::async::connection_gate> gate,
                 runtime::log::logger log, tracing* records, chosen_device cuda);

  serve_settings settings_;
  tracing* records_;
  std::string head_;
  std::uint32_t context_length_;
  runtime::log::logger log_;
  std::shared_ptr<member_board> board_ = std::make_shared<member_board>();
  std::weak_ptr<const void> alive_; ///< the member has it
  // In the order of their making; undone in the opposite one.
  std::unique_ptr<loader> loader_;
  std::shared_ptr<transport::fabric> fabric_;
  std::shared_ptr<transport::disk> disk_;
  std::unique_ptr<runtime::actor_system> system_;
  std::unique_ptr<head_connector> connector_;
  runtime::handle<actors::member_interface> member_;
};

} // namespace godwit::main
