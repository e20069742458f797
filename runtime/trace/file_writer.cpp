#include "trace/file_writer_state.hpp"

namespace godwit::runtime::trace {

file_writer::file_writer(std::unique_ptr<state> made) : state_(std::move(made)) {}
file_writer::~file_writer() {
  if (!state_->closed) static_cast<void>(state_->close());
}

async::expected<std::unique_ptr<file_writer>> file_writer::create(const std::string& path, file_settings settings) {
  auto file = file_output::create(path);
  if (!file) return file.error();
  if (auto done = (*file)->append(format::encode_file_header()); !done) return done.error();
  auto made = std::make_unique<state>(std::move(*file), settings);
  return std::unique_ptr<file_writer>(new file_writer(std::move(made)));
}

std::uint32_t file_writer::add_process(const process& added) { return state_->add_process(added); }
std::uint32_t file_writer::name(std::string_view text) { return state_->name(text); }
void file_writer::name_actor(actor_id actor, std::string_view text) { state_->name_actor(actor, text); }
void file_writer::add(const event& added) { state_->add(added); }
async::expected<void> file_writer::flush() { return state_->flush(); }
async::expected<void> file_writer::close() { return state_->close(); }
std::uint64_t file_writer::events() const noexcept { return state_->added_in_file + state_->added_in_chunk; }
std::uint64_t file_writer::lost() const noexcept { return state_->lost; }
bool file_writer::full() const noexcept { return state_->full; }
std::uint64_t file_writer::bytes() const noexcept { return state_->file->size(); }
std::uint64_t file_writer::raw_bytes() const noexcept { return state_->raw_in_file + state_->chunk.size(); }

async::expected<void> write_file(const std::string& path, const recording& written, file_settings settings) {
  auto made = file_writer::create(path, settings);
  if (!made) return made.error();
  auto& to = **made;
  std::vector<std::uint32_t> processes;
  std::vector<std::uint32_t> names;
  for (const auto& each : written.processes) processes.push_back(to.add_process(each));
  for (const auto& each : written.names) names.push_back(to.name(each));
  const auto process = [&](std::uint32_t which) { return which < processes.size() ? processes[which] : which; };
  for (const auto& [actor, text] : written.actors) to.name_actor({process(actor.process), actor.id}, text);
  event mapped;
  for (const auto& each : written.events) {
    mapped = each;
    mapped.id.process = process(each.id.process);
    mapped.cause.process = process(each.cause.process);
    mapped.sender.process = process(each.sender.process);
    mapped.receiver.process = process(each.receiver.process);
    for (auto& actor : mapped.actors) actor.process = process(actor.process);
    if (each.name < names.size()) mapped.name = names[each.name];
    to.add(mapped);
  }
  return to.close();
}

} // namespace godwit::runtime::trace
