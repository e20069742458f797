#include "main/sim_recording.hpp"

#include <utility>

namespace godwit::main {

namespace trace = runtime::trace;

sim_recording::sim_recording(std::string path, const serve_settings& settings, std::string profile,
                             std::unique_ptr<trace::file_writer> file)
    : path_(std::move(path)), settings_(settings), profile_(std::move(profile)), file_(std::move(file)) {}

protocols::expected<std::shared_ptr<sim_recording>, start_error>
sim_recording::create(const std::string& path, const serve_settings& settings, const std::string& profile) {
  trace::file_settings how;
  how.bytes_max = settings.trace.file_bytes_max;
  auto file = trace::file_writer::create(path, how);
  if (!file)
    return protocols::unexpected(start_error{"cannot record: " + file.error().message +
                                             "; name another file, in a folder that can be written (--record FILE)"});
  return std::shared_ptr<sim_recording>(new sim_recording(path, settings, profile, std::move(*file)));
}

std::shared_ptr<trace::recorder> sim_recording::begin(const runtime::clock& clock) {
  trace::process who;
  who.name = "simulation";
  who.facts = facts_of({"sim", "simulation", profile_}, settings_);
  trace::recorder_settings r;
  r.level = settings_.trace.level;
  r.prompts = settings_.trace.prompts;
  // A step makes a handful of events; an actor that tells all others of something, one for each.
  r.events_per_thread = r.events_beside = std::size_t{1} << 16U;
  r.bytes_beside = std::size_t{256} << 20U;
  recorder_ = std::make_shared<trace::recorder>(std::move(who), std::move(r), clock);
  feed_ = std::make_unique<trace::file_feed>(*recorder_, *file_);
  return recorder_;
}

void sim_recording::pump() {
  if (feed_) feed_->pump();
}

tracing::stored sim_recording::end(std::optional<std::int64_t> interrupted_at_ns) {
  tracing::stored out;
  if (interrupted_at_ns && recorder_) {
    auto who = recorder_->processes().front(); // the one that has the facts
    who.facts.push_back({std::string(interrupted_fact), std::to_string(*interrupted_at_ns)});
    (void)file_->add_process(who);
  }
  if (const auto result = file_->close(); !result) out.error = result.error().message;
  out.path = path_;
  out.events = file_->events();
  out.lost = file_->lost() + (recorder_ ? recorder_->lost() : 0);
  out.bytes = file_->bytes();
  return out;
}

} // namespace godwit::main
