#include <godwit/runtime/trace/file_recorder.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::runtime::trace {

struct file_feed::state {
  recorder& from;
  file_writer& to;
  std::vector<std::uint32_t> processes; ///< the file's, by the recorder's
  std::vector<process> told;            ///< to the file
  bool begun = false;

  void learn_processes() {
    const auto known = from.processes();
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (i < told.size() && told[i] == known[i]) continue;
      const auto index = to.add_process(known[i]);
      if (i < processes.size())
        processes[i] = index;
      else
        processes.push_back(index);
    }
    told = known;
  }
  [[nodiscard]] std::uint32_t in_file(std::uint32_t ours) {
    if (ours >= processes.size()) learn_processes();
    return ours < processes.size() ? processes[ours] : 0;
  }
  void translate(event& e, std::string_view name) {
    e.name = to.name(name);
    e.id.process = in_file(e.id.process);
    e.cause.process = e.cause ? in_file(e.cause.process) : 0;
    e.sender.process = e.sender ? in_file(e.sender.process) : 0;
    e.receiver.process = e.receiver ? in_file(e.receiver.process) : 0;
    for (auto& actor : e.actors)
      if (actor) actor.process = in_file(actor.process);
    to.add(e);
  }
};

file_feed::file_feed(recorder& from, file_writer& to) : state_(new state{from, to, {}, {}, false}) {}
file_feed::~file_feed() = default;

void file_feed::pump() {
  auto& s = *state_;
  // Processes first: events refer to them, and more may be told of one by now.
  s.learn_processes();
  if (!std::exchange(s.begun, true))
    for (const auto& [began, name] : s.from.living())
      s.to.name_actor({s.in_file(began.receiver.process), began.receiver.id}, name);
  s.from.drain([&](event& e, std::string_view name) { s.translate(e, name); });
}

struct file_recorder::state {
  std::shared_ptr<recorder> from;
  std::string path;
  file_recorder_settings settings;
  std::unique_ptr<file_writer> to;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  bool told_end = false; // the thread's
  std::atomic<std::uint64_t> events{0}, lost{0}, bytes{0}, raw_bytes{0};
  std::optional<async::error> failure; // the thread's, then `stop`'s
  std::thread thread;

  void look() {
    events = to->events();
    bytes = to->bytes();
    raw_bytes = to->raw_bytes();
    lost = to->lost() + from->lost();
  }
  void run() {
    file_feed feed(*from, *to);
    auto flushed = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    while (!stopping) {
      wake.wait_for(lock, settings.interval, [&] { return stopping; });
      lock.unlock();
      guarded([&] { feed.pump(); });
      if (const auto now = std::chrono::steady_clock::now(); now - flushed >= settings.flush_interval) {
        flushed = now;
        guarded([this] { flush(); });
      }
      look();
      lock.lock();
    }
    lock.unlock();
    guarded([&] { feed.pump(); });
    guarded([this] { keep_first(to->close()); });
    look();
  }
  void flush() {
    const auto done = to->flush();
    keep_first(done);
    if (told_end || (done && !to->full())) return;
    told_end = true;
    if (settings.on_end) settings.on_end({to->bytes(), done ? std::string() : done.error().message});
  }
  template <class Work> void guarded(Work work) {
    try {
      work();
    } catch (const std::exception& why) { // no memory
      keep_first(async::error{async::error_code::failed, why.what()});
    }
  }
  void keep_first(const async::expected<void>& result) {
    if (!result && !failure) failure = result.error();
  }
};

file_recorder::file_recorder(std::unique_ptr<state> made) : state_(std::move(made)) {}

async::expected<std::unique_ptr<file_recorder>>
file_recorder::start(std::shared_ptr<recorder> from, const std::string& path, file_recorder_settings settings) {
  if (!from) return async::error{async::error_code::failed, "there is no recorder to store the events of"};
  auto file = file_writer::create(path, settings.file);
  if (!file) return file.error();
  auto made = std::make_unique<state>();
  made->from = std::move(from);
  made->path = path;
  made->settings = settings;
  made->to = std::move(*file);
  made->thread = std::thread([s = made.get()] { s->run(); });
  return std::unique_ptr<file_recorder>(new file_recorder(std::move(made)));
}

file_recorder::~file_recorder() { (void)stop(); }

async::expected<void> file_recorder::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
  if (state_->failure) return *state_->failure;
  return {};
}

const std::string& file_recorder::path() const noexcept { return state_->path; }
std::uint64_t file_recorder::events() const noexcept { return state_->events; }
std::uint64_t file_recorder::lost() const noexcept { return state_->lost; }
std::uint64_t file_recorder::bytes() const noexcept { return state_->bytes; }
std::uint64_t file_recorder::raw_bytes() const noexcept { return state_->raw_bytes; }

} // namespace godwit::runtime::trace
