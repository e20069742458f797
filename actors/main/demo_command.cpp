#include "main/demo_command.hpp"

#include "main/demo_client.hpp"
#include "main/demo_mover.hpp"
#include "main/demo_report.hpp"
#include "main/device_choice.hpp"
#include "main/device_option.hpp"
#include "main/latency_stats.hpp"
#include "main/logging.hpp"
#include "main/serving.hpp"
#include "main/signals.hpp"
#include "main/tracing.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

namespace godwit::main {

namespace {

using std::chrono::milliseconds;

struct demo_options {
  std::string model;
  std::uint32_t requests = 48;
  std::uint32_t tokens = 300;
  bool json = false;
  std::string trace;
  device_choice device = device_choice::automatic;
  bool deterministic = false;
  std::uint32_t tensor_parallel = 1, pipeline_parallel = 1;
  gpu::model::rounding quantization = gpu::model::rounding::none;
};

/// Entries that the built-in model has learnt well.
constexpr std::array questions{
    "What is a back door?", "What is a hacker?",     "What is a deadlock?",  "What is a kludge?",
    "What is a daemon?",    "What is a cracker?",    "What is a flame?",     "What is a patch?",
    "What is a worm?",      "What is the Internet?", "What is a heisenbug?", "What is a magic cookie?",
    "What is a one-liner?", "What is big-endian?",
};

std::vector<demo_request> make_requests(const demo_options& options) {
  std::vector<demo_request> out;
  for (std::uint32_t i = 0; i < options.requests; ++i) {
    demo_request r;
    r.question = questions[i % questions.size()];
    r.seed = 1000 + i;
    r.temperature = i % 3 == 0 ? 0.0 : 0.8; // greedy and seeded sampling
    r.max_tokens = options.tokens;
    out.push_back(std::move(r));
  }
  return out;
}

/// Where the person looks: text on stdout, progress on stderr where that is a terminal. With --json nothing but the
/// object.
class stage {
public:
  explicit stage(bool quiet) : quiet_(quiet), live_(!quiet && ::isatty(STDERR_FILENO) != 0) {}
  void line(const std::string& text) {
    if (quiet_) return;
    const std::lock_guard lock(mutex_);
    clear();
    std::cout << text << std::endl;
  }
  /// Text of an answer as it streams; wrapped.
  void speak(const std::string& text) {
    if (quiet_) return;
    const std::lock_guard lock(mutex_);
    clear();
    for (const char c : text) {
      if (column_ == 0) std::cout << "    ";
      if (c == '\n' || (c == ' ' && column_ > 90)) {
        std::cout << '\n';
        column_ = 0;
      } else {
        std::cout << c;
        ++column_;
      }
    }
    std::cout << std::flush;
  }
  void end_speech() {
    if (quiet_) return;
    const std::lock_guard lock(mutex_);
    if (std::exchange(column_, 0) != 0) std::cout << std::endl;
  }
  void progress(const std::string& text) {
    if (!live_) return;
    const std::lock_guard lock(mutex_);
    if (column_ != 0) return; // an answer is being streamed on that line
    std::cerr << "\r\x1b[K" << text << std::flush;
    shown_ = true;
  }

private:
  void clear() {
    if (std::exchange(shown_, false)) std::cerr << "\r\x1b[K" << std::flush;
  }
  bool quiet_;
  bool live_;
  std::mutex mutex_;
  bool shown_ = false;
  int column_ = 0;
};

/// Waits for a round, showing progress; `look` is called a few times a second. Null when it is complete, else why not.
const char* watch(demo_round& round, std::size_t total, stage& out, signals& stop, const std::function<void()>& look) {
  constexpr auto longest = std::chrono::minutes(5);
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (!round.wait_for(milliseconds(1))) {
    if (stop.received()) return "interrupted";
    if (std::chrono::steady_clock::now() > deadline)
      return "the answers are not complete after 5 minutes; ask for less with --requests or --tokens";
    look();
    out.progress(
        fmt::format("  {} of {} answers complete, {} pieces of text streamed", round.ended(), total, round.pieces()));
  }
  return nullptr;
}

/// The instance that runs the oldest open request, which is the one whose text is shown.
std::optional<protocols::instance_id> owner_of_oldest(actors::cluster& cluster) {
  const auto status = cluster.status(true);
  if (!status) return std::nullopt;
  std::optional<protocols::instance_id> owner;
  std::uint64_t oldest = ~std::uint64_t{0};
  for (const auto& instance : status->instances)
    for (const auto& request : instance.requests)
      if (request.request.value() < oldest) {
        oldest = request.request.value();
        owner = instance.instance;
      }
  return owner;
}

void add(moves& sum, const moves& more) {
  sum.ordered += more.ordered;
  sum.committed += more.committed;
  sum.bytes += more.bytes;
  sum.stall_ms.insert(sum.stall_ms.end(), more.stall_ms.begin(), more.stall_ms.end());
}

std::string moved_line(const moves& moved) {
  const auto stall = summarise(moved.stall_ms);
  return fmt::format(
      "   {} migrations committed, {:.1f} MiB of KV; a request stood still for {:.2f} ms (P50), {:.2f} ms "
      "(P99)",
      moved.committed, static_cast<double>(moved.bytes) / (1 << 20), stall.p50, stall.p99);
}

serve_settings settings_of(const demo_options& options) {
  serve_settings settings;
  settings.instances.count = 2;
  settings.instances.device = options.device;
  settings.instances.deterministic = options.deterministic;
  settings.instances.tensor_parallel = options.tensor_parallel;
  settings.instances.pipeline_parallel = options.pipeline_parallel;
  settings.model.quantization = options.quantization;
  settings.http.listen = "127.0.0.1:0";
  settings.control.listen.clear();
  settings.log.levels = "off"; // the kill is part of the show
  settings.trace.file = options.trace;
  if (!options.trace.empty()) { // all that replay needs; the questions are ours
    settings.trace.level = runtime::trace::level::content;
    settings.trace.prompts = true;
  }
  return settings;
}

int perform(const demo_options& options, const serve_settings& settings, gpu::model::model_directory model,
            chosen_device cuda, signals& stop, runtime::log::logger log, tracing& records) {
  stage out(options.json);
  auto started = serving::start(settings, std::move(model), std::move(log), &records, {}, std::move(cuda));
  if (!started) return std::cerr << "godwit: " << started.error().line << '\n', started.error().exit_code;
  auto& node = **started;
  if (const auto error = node.wait_ready([&] { return stop.received(); }))
    return std::cerr << "godwit: " << (error->line.empty() ? "interrupted" : error->line) << '\n', error->exit_code;

  demo_report report;
  report.model = node.model_name();
  report.instances = settings.instances.count;
  const auto first = node.cluster().status();
  const auto requests = make_requests(options);
  out.line(fmt::format("godwit {}: model '{}' on {} instances ({}), OpenAI-style endpoint at {}", GODWIT_VERSION,
                       node.model_name(), settings.instances.count, first ? first->instances.front().device : "?",
                       node.url()));
  const auto given_up = [](const char* why) { return std::cerr << "godwit: " << why << '\n', 1; };

  out.line(fmt::format("\n1. {} requests at once over HTTP, undisturbed", requests.size()));
  std::uint64_t expected = 0;
  for (int warm = 0; warm < 2; ++warm) { // the first one finds cold caches; it does not count
    demo_round round(node.url(), node.model_name(), requests);
    if (const auto* why = watch(round, requests.size(), out, stop, [] {})) return given_up(why);
    report.calm.answers = round.answers();
    report.calm.seconds = round.seconds();
    expected = round.pieces();
  }
  for (const auto& answer : report.calm.answers)
    if (!answer.error.empty()) return std::cerr << "godwit: an answer failed: " << answer.error << '\n', 1;

  out.line("\n2. The same requests, while each one migrates from instance to instance all the time, KV cache and all");
  {
    demo_round round(node.url(), node.model_name(), requests);
    mover shuffle(node.cluster());
    if (const auto* why = watch(round, requests.size(), out, stop, [] {})) return given_up(why);
    add(report.moved, shuffle.stop());
    report.migrated.answers = round.answers();
    report.migrated.seconds = round.seconds();
  }
  out.line(moved_line(report.moved));

  out.line("\n3. Once more, and half-way an instance is killed. One of the answers as it streams:\n");
  out.speak(requests.front().question);
  out.end_speech();
  // On a fast machine the round may be over before the kill: then once more, with an earlier one.
  for (std::uint64_t share = 40; share >= 5 && report.redispatched == 0; share /= 2) {
    if (share < 40) out.line("    [the kill came too late to hit a running request; once more]\n");
    bool killed = false;
    demo_round round(node.url(), node.model_name(), requests, [&](std::size_t i, const std::string& text) {
      if (i == 0) out.speak(text);
    });
    mover shuffle(node.cluster());
    const auto look = [&] {
      if (killed || round.pieces() * 100 < expected * share) return;
      killed = true;
      const auto victim = owner_of_oldest(node.cluster()).value_or(protocols::instance_id{0});
      report.killed_instance = victim.value();
      node.cluster().kill(victim);
      out.speak(fmt::format(" [instance {} killed] ", victim.value()));
    };
    if (const auto* why = watch(round, requests.size(), out, stop, look)) return given_up(why);
    add(report.moved, shuffle.stop());
    out.end_speech();
    report.killed.answers = round.answers();
    report.killed.seconds = round.seconds();
    if (const auto status = node.cluster().status()) {
      report.redispatched = status->redispatches_total;
      report.restarts = 0;
      for (const auto& instance : status->instances) report.restarts += instance.restarts;
    }
    if (node.wait_ready([&] { return stop.received(); })) break;
  }

  if (options.json) {
    std::cout << demo_json(report) << std::endl;
  } else {
    out.line(fmt::format("\nInstance {} died with {} running requests. Their front end re-dispatched them from prompt "
                         "and tokens so far.",
                         report.killed_instance, report.redispatched));
    for (const auto* play : {&report.migrated, &report.killed})
      out.line(fmt::format("{}: {} of {} clients got their whole answer; {} of {} answers equal the undisturbed ones.",
                           play->title, report.complete(*play), requests.size(), report.equal(*play), requests.size()));
    out.line("\n" + demo_table(report));
    if (report.moved.committed == 0) out.line("no request migrated: ask for longer answers with --tokens");
    if (report.redispatched == 0) out.line("the answers were complete before the kill: ask for more with --tokens");
    out.line(report.passed() ? "demo passed" : "demo FAILED");
  }
  return report.passed() ? 0 : 1;
}

int demo(const demo_options& options) {
  signals stop; // before any thread
  auto settings = settings_of(options);
  auto log = open_log(settings);
  if (!log) return std::cerr << "godwit: " << log.error() << '\n', 1;
  auto model = open_served_model(options.model, settings.model.quantization);
  if (!model) return std::cerr << "godwit: " << model.error().line << '\n', model.error().exit_code;
  auto cuda = choose_device_for(model->configuration, settings, log->component("device"));
  if (!cuda) return std::cerr << "godwit: " << cuda.error().line << '\n', cuda.error().exit_code;
  tracing records(settings, {"demo", "demo", options.model}, log->component("trace"));
  const auto code = perform(options, settings, std::move(*model), std::move(*cuda), stop, *log, records);
  const auto file = records.end();
  if (!file) return code;
  (options.json ? std::cerr : std::cout) << describe(*file) << std::endl;
  return file->error.empty() ? code : 1;
}

} // namespace

void add_demo_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<demo_options>();
  auto* command = app.add_subcommand(
      "demo", "Serve, migrate every request all the time, kill an instance, and show that no client notices");
  command->add_option("model", options->model, "Model directory; without it the built-in default model")
      ->type_name("MODEL_DIR");
  command->add_option("--requests", options->requests, "Requests at once")
      ->check(CLI::Range(4, 1000))
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "Longest answer")
      ->check(CLI::Range(16, 100000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object on stdout and nothing else");
  add_device_option(*command, options->device, "Where the model runs: auto, cpu or cuda");
  command->add_flag("--deterministic", options->deterministic, "On a GPU, form every sum in one order");
  command->add_option("--tensor-parallel", options->tensor_parallel, "Devices that share each instance's model")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--pipeline-parallel", options->pipeline_parallel, "Devices that each have some of its layers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_quantization_option(*command, options->quantization);
  command->add_option("--trace", options->trace, "Record every message with its content, for godwit trace")
      ->type_name("FILE");
  command->callback([options, &result] { result.run = [options] { return demo(*options); }; });
}

} // namespace godwit::main
