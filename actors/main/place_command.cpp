#include "main/place_command.hpp"

#include "main/device_choice.hpp"
#include "main/number_range.hpp"

#include <godwit/gpu/cuda/kv_geometry.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/quantize.hpp>
#include <godwit/protocols/policy/layer_placement.hpp>

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace godwit::main {

namespace json = boost::json;

namespace {

/// What is wrong with the command line.
class misunderstood : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// "24GiB", "1.5TB", "600".
std::optional<double> bytes_in(std::string_view text) {
  struct unit {
    std::string_view name;
    double bytes;
  };
  constexpr std::array units{unit{"", 1},         unit{"B", 1},       unit{"KB", 1e3},     unit{"MB", 1e6},
                             unit{"GB", 1e9},     unit{"TB", 1e12},   unit{"KiB", 0x1p10}, unit{"MiB", 0x1p20},
                             unit{"GiB", 0x1p30}, unit{"TiB", 0x1p40}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !(value > 0)) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto* const found = std::ranges::find_if(units, [&](const unit& u) { return u.name == rest; });
  const auto bytes = found == units.end() ? 0 : value * found->bytes;
  return bytes >= 1 && bytes < 1e18 ? std::optional(bytes) : std::nullopt;
}

protocols::layer_host device_in(const std::string& text) {
  const auto at = text.find('@');
  auto speed = at == std::string::npos ? std::string_view() : std::string_view(text).substr(at + 1);
  if (speed.ends_with("/s")) speed.remove_suffix(2);
  const auto memory = bytes_in(std::string_view(text).substr(0, at)), rate = bytes_in(speed);
  if (!memory || !rate) throw misunderstood("--device " + text + " is not MEMORY@SPEED, as in 24GiB@600GB/s");
  return {static_cast<std::uint64_t>(*memory), *rate};
}

std::vector<double> hops_of(const place_options& options) {
  const auto count = options.devices.size();
  std::vector<double> hops(count * count, options.hop_us * 1e-6);
  for (const auto& text : options.links) {
    std::size_t from = 0, to = 0;
    double us = 0;
    const char *at = text.data(), *const end = text.data() + text.size();
    const auto number = [&](auto& value, std::string_view then) {
      const auto [next, error] = std::from_chars(at, end, value);
      const auto fits =
          error == std::errc{} && std::string_view(next, static_cast<std::size_t>(end - next)).starts_with(then);
      at = next + (fits ? then.size() : 0);
      return fits;
    };
    if (!number(from, "-") || !number(to, "=") || !number(us, "us") || at != end || from >= count || to >= count ||
        from == to || !(us >= 0) || !std::isfinite(us))
      throw misunderstood("--link " + text +
                          " is not DEVICE-DEVICE=MICROSECONDS, as in 0-1=20us; devices are counted "
                          "from 0");
    hops[from * count + to] = hops[to * count + from] = us * 1e-6;
  }
  return hops;
}

/// Weights as the GPUs keep them, of two bytes a value.
protocols::layered_model measure(const gpu::model::model_directory& model, std::uint64_t tokens) {
  const auto& c = model.configuration;
  constexpr std::uint64_t value = 2;
  const auto hidden = std::uint64_t{c.hidden};
  const auto queries = std::uint64_t{c.heads} * c.head_size, keys = std::uint64_t{c.kv_heads} * c.head_size;
  protocols::layered_model out;
  out.layers = c.layers;
  const std::uint64_t mlps = std::max(1U, c.mixture.experts), routers = c.mixture.experts * hidden;
  out.layer_bytes = (2 * hidden * (queries + keys) + mlps * 3 * hidden * c.intermediate + routers + 2 * hidden) * value;
  const auto block = gpu::cuda::kv_geometry_of(c, *model.tensors).block_bytes / c.layers;
  out.layer_reserve = (tokens + protocols::tokens_per_block - 1) / protocols::tokens_per_block * block;
  out.first_bytes = out.last_bytes = std::uint64_t{c.vocabulary} * hidden * value;
  if (c.tied_embeddings) out.shared_bytes = out.first_bytes;
  return out;
}

std::string in_words(std::uint64_t bytes) {
  const auto x = static_cast<double>(bytes);
  return x >= 0x1p30 ? fmt::format("{:.2f} GiB", x * 0x1p-30) : fmt::format("{:.2f} MiB", x * 0x1p-20);
}

/// Of the devices' numbers, or of their layers.
template <class What> std::string listed(const protocols::layer_placement& placed, const What& what) {
  std::string out;
  for (const auto& run : placed.runs) out += (out.empty() ? "" : ",") + std::to_string(what(run));
  return out;
}

/// Of `serve`; empty: one device has all, and needs none.
std::string flags_for(const protocols::layer_placement& placed) {
  if (placed.runs.size() == 1) return {};
  return fmt::format("--pipeline-parallel {} --pipeline-layers {}", placed.runs.size(),
                     listed(placed, [](const auto& run) { return run.layers; }));
}

json::object json_of(const protocols::layered_model& model, const protocols::layer_placement& placed) {
  json::array stages;
  for (std::size_t i = 0; i < placed.runs.size(); ++i) {
    const auto& run = placed.runs[i];
    stages.push_back(json::object{{"device", run.device}, {"layers", run.layers}});
  }
  return {
      {"stages", std::move(stages)},      {"seconds_per_token", placed.seconds},   {"hop_seconds", placed.hop_seconds},
      {"layer_bytes", model.layer_bytes}, {"layer_kv_bytes", model.layer_reserve}, {"head_bytes", model.last_bytes},
      {"flags", flags_for(placed)}};
}

void print_table(const protocols::layered_model& model, const std::vector<protocols::layer_host>& devices,
                 const protocols::layer_placement& placed, std::ostream& out) {
  constexpr auto columns = "{:<8}{:>8}{:>14}{:>14}{:>14}{:>14}\n";
  out << fmt::format(columns, "device", "layers", "weights", "KV", "of memory", "ms a token");
  for (std::size_t i = 0; i < placed.runs.size(); ++i) {
    const auto& run = placed.runs[i];
    const bool last = i + 1 == placed.runs.size();
    const auto read = run.layers * model.layer_bytes + (last ? model.last_bytes : 0);
    const auto weights = read + (i == 0 ? model.first_bytes : 0) - (i == 0 && last ? model.shared_bytes : 0);
    out << fmt::format(columns, run.device, run.layers, in_words(weights), in_words(run.layers * model.layer_reserve),
                       in_words(devices[run.device].memory_bytes),
                       fmt::format("{:.3f}", static_cast<double>(read) / devices[run.device].bytes_per_second * 1e3));
  }
  out << fmt::format("a token alone: {:.3f} ms at least, {:.3f} of it from device to device\n", placed.seconds * 1e3,
                     placed.hop_seconds * 1e3);
  out << (placed.runs.size() == 1 ? "on one device, which needs no flag" : flags_for(placed)) << '\n';
  out << "with these devices, in this order: CUDA_VISIBLE_DEVICES="
      << listed(placed, [](const auto& run) { return run.device; }) << '\n';
}

} // namespace

int place_model(const place_options& options, std::ostream& out, std::ostream& errors) {
  const auto wrong = [&](const std::string& line, int code) {
    errors << "godwit: " << line << '\n';
    return code;
  };
  try {
    if (!(options.hop_us >= 0 && options.hop_us <= 1e6) || !(options.device_ms >= 0 && options.device_ms <= 1e9)) // nan
      throw misunderstood("--hop-us is 0 to 1e6 microseconds, --device-ms 0 to 1e9 milliseconds");
    std::vector<protocols::layer_host> devices;
    for (const auto& text : options.devices) devices.push_back(device_in(text));
    const auto hops = hops_of(options);
    auto embedded = options.model == "default" ? gpu::model::embedded_model() : nullptr;
    if (options.model == "default" && !embedded)
      return wrong("this build of godwit has no embedded model; name a directory", 2);
    const auto opened = embedded ? gpu::model::open_model(std::move(embedded))
                                 : gpu::model::open_model(std::filesystem::path(options.model));
    if (!opened) return wrong(opened.error().what(), 2);
    if (const auto lacking = lacking_on_gpus(opened->configuration); !lacking.empty())
      return wrong("the CUDA kernels have no " + lacking + ", so there is nothing to place on GPUs", 2);
    const auto model = measure(*opened, options.tokens);
    const auto placed = protocols::place_layers(model, devices, hops, options.device_ms * 1e-3);
    if (!placed) return wrong(placed.error(), devices.empty() || devices.size() > protocols::layer_hosts_max ? 2 : 1);
    if (options.json) {
      out << json::serialize(json_of(model, *placed)) << '\n';
      return 0;
    }
    print_table(model, devices, *placed, out);
    if (const auto codes = gpu::model::quantization_in_words(*opened); !codes.empty())
      out << "planned with 16 bits for each weight, as GPUs keep them; the files have " << codes << '\n';
    return 0;
  } catch (const misunderstood& failure) {
    return wrong(failure.what(), 2);
  } catch (const std::exception& failure) { // a model whose KV cannot be measured
    return wrong(failure.what(), 2);
  }
}

void add_place_command(CLI::App& model, command_result& result) {
  auto options = std::make_shared<place_options>();
  auto* command = model.add_subcommand(
      "place", "Which devices, of different memory and speed, should have how many of a model's layers");
  command
      ->add_option("MODEL", options->model,
                   "A Hugging Face model directory or a GGUF file, or default for the embedded model")
      ->required();
  command
      ->add_option("--device", options->devices,
                   "Its memory for weights and KV, and how fast it is read: 24GiB@600GB/s; once for each")
      ->type_name("MEMORY@SPEED")
      ->required();
  command->add_option("--link", options->links, "How long rows of a token take between two devices: 0-1=20us")
      ->type_name("I-J=US");
  command->add_option("--hop-us", options->hop_us, "The same, between all others, in microseconds")
      ->check(between(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "That the KV cache is to hold, of all requests together")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40U))
      ->capture_default_str();
  command
      ->add_option("--device-ms", options->device_ms,
                   "What each further device has to save of a token's time, in milliseconds; 0: the lowest latency, "
                   "much: the fewest devices")
      ->check(between(0.0, 1e9))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object");
  command->callback(
      [options, &result] { result.run = [options] { return place_model(*options, std::cout, std::cerr); }; });
}

} // namespace godwit::main
