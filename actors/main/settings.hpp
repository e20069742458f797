#pragma once

#include <godwit/gpu/model/rounding.hpp>
#include <godwit/protocols/batching/settings.hpp>
#include <godwit/protocols/batching/speculation.hpp>
#include <godwit/protocols/policy/headroom.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/role_balance.hpp>
#include <godwit/protocols/policy/scaling.hpp>
#include <godwit/protocols/policy/selection.hpp>
#include <godwit/runtime/config/registry.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::main {

enum class device_choice : std::uint8_t { automatic, cpu, cuda };
enum class notify_choice : std::uint8_t { callback, polling };
enum class copies_choice : std::uint8_t { kernel, engines };
enum class kv_choice : std::uint8_t { automatic, bf16, f32, fp8 };
enum class fabric_choice : std::uint8_t { automatic, ucx, in_process, none };
enum class reasoning_format : std::uint8_t { none, think };
enum class log_format : std::uint8_t { text, json };
enum class provisioner_choice : std::uint8_t { in_process, process, command };

/// Everything that `godwit serve` and `godwit node` can be told, with its defaults. `declare` says what each means.
struct serve_settings {
  struct {
    std::string name;                 // as clients call the model; empty: the directory's name
    std::vector<std::string> aliases; // other names for it
    std::uint32_t context_max = 0;    // tokens; 0: what the model was made for
    gpu::model::rounding quantization = gpu::model::rounding::none;
    std::string chat_template; // a file; empty: the model's own
    reasoning_format reasoning_parser = reasoning_format::none;
  } model;
  struct {
    std::uint32_t count = 1;
    std::vector<std::string> roles; // ROLE or ROLE:N
    device_choice device = device_choice::automatic;
    bool deterministic = false;
    std::string cuda_plugin; // a file; empty: beside the program and where it is installed
    bool cuda_graphs = true;
    bool cuda_trials = true;
    notify_choice cuda_notify = notify_choice::callback;
    copies_choice cuda_copies = copies_choice::kernel;
    double memory_share = 0.9;
    std::uint32_t tensor_parallel = 1;
    std::uint32_t pipeline_parallel = 1;
    std::vector<std::string> pipeline_layers; // numbers; empty: divided evenly
    std::uint32_t pipeline_rows = 256;
    std::uint32_t pipeline_steps = 0; // 0: as many as stages
    double pipeline_balance = 0.1;    // 0: layers stay
    std::chrono::milliseconds pipeline_balance_window{5'000};
    std::uint32_t threads = 0; // 0: the cores, divided among the instances
    std::uint64_t kv_bytes = 0;
    kv_choice kv_type = kv_choice::automatic;
    std::string isa = "auto";
    std::uint32_t layers_per_advance = 0;
    std::chrono::milliseconds step_timeout{120'000};
    std::chrono::milliseconds restart_backoff_min{100};
    std::chrono::milliseconds restart_backoff_max{10'000};
  } instances;
  struct {
    protocols::batching_mode batching = protocols::batching_mode::continuous;
    std::uint32_t step_tokens_max = 512;
    std::uint32_t sequences_max = 256;
    std::uint32_t queue_max = 1024;
    protocols::queue_order queue_order = protocols::queue_order::fcfs;
    std::chrono::milliseconds queue_aging{protocols::queue_rule{}.aging_ns / 1'000'000}; // for each token
    double batch_slo_weight = 0;
    double batch_length_weight = 0;
    bool prefix_caching = true;
    protocols::preemption_mode preemption = protocols::preemption_mode::adaptive;
    std::uint64_t swap_bytes = 0; // 0: nothing is swapped
  } llumlet;
  struct {
    std::uint32_t tokens_max = protocols::speculation_settings{}.tokens_max;
    std::uint32_t lookup_min = protocols::speculation_settings{}.lookup_min;
    std::uint32_t lookup_max = protocols::speculation_settings{}.lookup_max;
    std::uint32_t batch_max = protocols::speculation_settings{}.batch_max;
    std::uint32_t prediction_max = 16;
    std::string draft_model;     // a directory; empty: none
    std::uint32_t model_max = 4; // with a draft model
  } speculation;
  struct {
    std::string policy = "freeness";
    protocols::migration_policy migration = protocols::migration_policy::freeness;
    std::chrono::milliseconds migration_interval{200};
    double migrate_below = protocols::pairing_settings{}.source_below;
    double migrate_above = protocols::pairing_settings{}.destination_above;
    std::chrono::milliseconds move_cooldown{2'000};
    double move_gain = protocols::selection_settings{}.gain_min;
    std::chrono::milliseconds report_interval{100};
    std::chrono::milliseconds stale_after{1'000};
    protocols::role_policy roles = protocols::role_policy::fixed;
    std::chrono::milliseconds role_hold{5'000};
    double role_load_min = protocols::role_settings{}.load_min;
    std::string policy_plugin; // a file; empty: none
    std::string policy_arguments;
  } scheduler;
  struct {
    std::string execution = "normal=0,high=auto";
    bool profile = true;
    std::chrono::milliseconds profile_time_max{2'000};
  } priorities;
  struct {
    protocols::scaling_mode mode = protocols::scaling_mode::off;
    protocols::scaling_rule rule = protocols::scaling_settings{}.rule;
    double freeness_min = protocols::scaling_settings{}.freeness_min;
    double freeness_max = protocols::scaling_settings{}.freeness_max;
    std::chrono::milliseconds hold{10'000};
    std::uint32_t instances_min = 1;
    std::uint32_t instances_max = 16;
    provisioner_choice provisioner = provisioner_choice::in_process;
    std::string command_out;
    std::string command_in;
    std::chrono::milliseconds provision_timeout{600'000};
  } scaling;
  struct {
    std::uint32_t requests_max = 4096;
    std::uint32_t attempts_max = 16;
    std::chrono::milliseconds placement_timeout{30'000};
    std::chrono::milliseconds request_timeout{3'600'000};
    std::uint32_t prompts_max = 64;
  } frontend;
  struct {
    std::chrono::milliseconds ttft{0};
    std::chrono::milliseconds tpot{0};
    double margin = 0.1;
    bool early_rejection = false;
  } admission;
  struct {
    std::string listen = "127.0.0.1:8000";
    std::uint32_t threads = 2;
    std::uint64_t body_bytes_max = 10 * 1024 * 1024;
    std::uint64_t bodies_bytes_max = 1024 * 1024 * 1024;
    std::uint32_t header_bytes_max = 16 * 1024;
    std::uint32_t connections_max = 16'384;
    std::uint32_t connections_per_address_max = 4096;
    std::uint64_t queued_bytes_max = 1024 * 1024;
    std::uint64_t answers_bytes_max = 1024 * 1024 * 1024;
    std::chrono::milliseconds header_timeout{10'000};
    std::chrono::milliseconds body_timeout{60'000};
    std::chrono::milliseconds idle_timeout{75'000};
    std::chrono::milliseconds write_timeout{30'000};
    std::string api_key_file;
    std::string tls_cert;
    std::string tls_key;
    std::vector<std::string> cors_allowed_origins;
    bool ignore_unsupported = false;
    bool debug = false;
  } http;
  struct {
    std::string listen = "127.0.0.1:7070";
    std::string advertise;
  } control;
  struct {
    std::string name; // of this process; empty: host and process id
    std::chrono::milliseconds heartbeat_interval{100};
    std::chrono::milliseconds connection_timeout{2000};
    std::chrono::milliseconds rejoin_pause_max{5'000};
    std::string tls_cert;
    std::string tls_key;
    std::string tls_ca;
  } cluster;
  struct {
    std::uint32_t stages_max = 8;
    std::uint32_t last_blocks_max = 2;
    std::uint32_t out_max = 2;
    std::uint32_t in_max = 2;
    std::uint32_t handoff_max = 8;
    std::chrono::milliseconds answer_timeout{2'000};
    std::chrono::milliseconds stage_timeout{30'000};
    std::chrono::milliseconds last_timeout{2'000};
    std::chrono::milliseconds lease{30'000};
    std::chrono::milliseconds claim_timeout{2'000};
    std::uint32_t claims_max = 3;
    std::uint64_t portion_bytes = 8 * 1024 * 1024;
    double copy_share = 0; // 0: chosen by the device
  } migration;
  struct {
    std::uint64_t bytes = 0; // 0: no shard here
    std::uint64_t disk_bytes = 0;
    std::string disk_directory;
    std::uint32_t load_min = 64;
    std::chrono::milliseconds lookup_timeout{100};
    std::chrono::milliseconds load_timeout{2'000};
    std::chrono::milliseconds put_timeout{30'000};
    std::uint32_t puts_max = 2;
  } kv_store;
  struct {
    std::string directory; // empty: no adapters
    std::uint64_t bytes_max = std::uint64_t{2} << 30U;
  } lora;
  struct {
    fabric_choice backend = fabric_choice::automatic;
    std::string listen = "127.0.0.1";
    std::uint16_t port = 0; // 0: any free ones
    std::string advertise;
    std::string transports = "tcp";
    bool cross_memory = true;
    transport::ucx::remote_reading remote_reads = transport::ucx::remote_reading::devices;
    bool checksum = false;
    bool busy_poll = false;
  } fabric;
  struct {
    std::string failpoints;
  } debug;
  struct {
    std::uint32_t worker_threads = 0; // 0: chosen by the number of cores
    std::chrono::milliseconds drain_timeout{30'000};
    std::chrono::milliseconds drain_delay{0};
    std::string ready_file; // empty: none
  } runtime;
  struct {
    std::string file;
    runtime::trace::level level = runtime::trace::level::headers;
    bool prompts = false;
    std::uint64_t file_bytes_max = std::uint64_t{8} << 30U;
    bool flight = true;
    std::uint32_t flight_events = 8192;
    std::string dump_dir = ".";
    std::uint32_t dumps_max = 8;
    std::chrono::milliseconds slow_request{0};
  } trace;
  struct {
    std::string levels = "info";
    log_format format = log_format::text;
    std::string file;
    std::chrono::milliseconds load_interval{10'000};
  } log;
};

/// Binds every setting to its name, unit, doc, default and bounds; the flags, the TOML keys, the GODWIT_ variables and
/// docs/reference/settings.md follow from it.
void declare(runtime::config::registry& registry, serve_settings& settings);

/// Levels of execution priority of settings that were validated, lowest first.
[[nodiscard]] std::vector<protocols::execution_level> execution_levels(const serve_settings& settings);

/// "HOST:PORT" or "[HOST]:PORT".
struct endpoint {
  std::string host;
  std::uint16_t port = 0;
};
/// Absent where `text` is none.
[[nodiscard]] std::optional<endpoint> parse_endpoint(const std::string& text);
/// Whether `text` is an IP address that another process can be told: no name, no wildcard.
[[nodiscard]] bool is_address(const std::string& text);
/// Whether only this machine can reach such an address.
[[nodiscard]] bool is_loopback(const std::string& host);
/// Whether it stands for all addresses of the machine, and so names none: 0.0.0.0 or ::.
[[nodiscard]] bool is_wildcard(const std::string& host);

} // namespace godwit::main
