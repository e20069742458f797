#include "main/frontend_process.hpp"

#include "main/head_options.hpp"
#include "main/lora_options.hpp"
#include "main/process_metrics.hpp"
#include "main/thread_room.hpp"

#include <godwit/runtime/machine.hpp>

#include <utility>

namespace godwit::main {

using std::chrono::milliseconds;

frontend_process::frontend_process(const serve_settings& settings, const endpoint& head,
                                   const gpu::model::model_directory& model, actors::model_identity identity,
                                   std::shared_ptr<const protocols::openai::chat_template> chat,
                                   std::shared_ptr<runtime::async::connection_gate> gate, runtime::log::logger log,
                                   tracing* records)
    : settings_(settings), records_(records), head_(head.host + ":" + std::to_string(head.port)),
      model_name_(served_name(settings, model)) {
  const auto context = identity.context_length;
  system_ =
      std::make_unique<runtime::actor_system>(make_system_settings(settings_, true, std::move(gate), log, records));
  connector_ = std::make_unique<head_connector>(*system_, head);
  gate_ = std::make_shared<actors::frontend_gate>(*system_);
  http_ = std::make_unique<http_front>(
      settings_, http_front::parts{model_name_, context, std::move(chat), gate_, &metrics_, records_, log}, model);
  process_metrics_ = add_process_metrics(metrics_);

  auto o = make_frontend_member_options(settings_, std::move(identity), log);
  o.address = process_name(settings_);
  while (o.key == 0) o.key = runtime::entropy();
  o.find_head = connector_->finder();
  o.frontend->random_seed = runtime::entropy();
  o.frontend->metrics = std::make_shared<actors::frontend_metrics>(metrics_, model_name_, context);
  o.frontend->migrations = std::make_shared<actors::migration_metrics>(metrics_);
  const auto over = std::make_shared<std::promise<void>>();
  over_ = over->get_future();
  o.frontend->keep = std::shared_ptr<void>(nullptr, [over](std::nullptr_t) { over->set_value(); });
  o.on_topology = [to = gate_](const actors::topology& news) { to->update(news); };
  const std::shared_ptr<const void> alive = std::make_shared<char>();
  alive_ = alive;
  o.on_state = [to = board_, alive](const actors::member_state& state) { to->set(state); };
  if (records_ != nullptr) o.trace = records_->control();
  member_ = system_->spawn<actors::member>(std::move(o));
}

frontend_process::~frontend_process() {
  http_->refuse_new();
  // Ends the front end first, so that clients that still wait get an error and not a broken stream.
  constexpr milliseconds told_within{6'000}; // it says itself where the head is silent
  (void)system_->ask(member_, told_within, actors::retire{});
  gate_->close();
  system_->stop(std::exchange(member_, {}));
  constexpr milliseconds ended_within{2'000};
  (void)over_.wait_for(ended_within);
  http_->end();
  system_->shutdown(milliseconds(5000)); // nobody looks for the head any more
  connector_.reset();
  board_->set({}); // nobody is told anything any more
  if (records_ != nullptr) records_->settle();
}

protocols::expected<std::unique_ptr<frontend_process>, start_error>
frontend_process::start(const serve_settings& settings, const endpoint& head, gpu::model::model_directory model,
                        runtime::log::logger log, tracing* records) {
  if (auto short_of = check_threads(threads_of(settings))) return protocols::unexpected(std::move(*short_of));
  auto identity = identity_of(settings, model);
  if (!identity) return protocols::unexpected(identity.error());
  if (auto wrong = check_lora(settings)) return protocols::unexpected(std::move(*wrong));
  auto chat = open_chat_template(settings, model);
  if (!chat) return protocols::unexpected(chat.error());
  auto gate = make_gate(settings, log);
  if (!gate) return protocols::unexpected(gate.error());
  auto out = std::unique_ptr<frontend_process>(new frontend_process(
      settings, head, model, std::move(*identity), std::move(*chat), std::move(*gate), std::move(log), records));
  if (records != nullptr)
    if (auto error = records->begin()) return protocols::unexpected(std::move(*error));
  if (auto error = out->http_->listen()) return protocols::unexpected(std::move(*error));
  return out;
}

std::optional<start_error> frontend_process::wait_joined(const std::function<bool()>& give_up) const {
  return board_->wait_joined(head_, give_up, [this] { return alive(); });
}

} // namespace godwit::main
