#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"
#include "main/tracing.hpp"

#include <godwit/actors/sim/simulated_cluster.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/trace/file_recorder.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace godwit::main {

/// The fact that says when, on its clock in ns, a recorded run was interrupted; not there: it was not.
inline constexpr std::string_view interrupted_fact = "interrupted_at_ns";

/// A simulated run as a file, for `godwit sim --record`: nothing of it is lost, however fast the run is, since the run
/// itself stores it.
class sim_recording final : public actors::sim::run_recorder {
public:
  /// Makes the file. `profile`: what the facts name as the model.
  [[nodiscard]] static protocols::expected<std::shared_ptr<sim_recording>, start_error>
  create(const std::string& path, const serve_settings& settings, const std::string& profile);

  [[nodiscard]] std::shared_ptr<runtime::trace::recorder> begin(const runtime::clock& clock) override;
  void pump() override;
  /// When the run is over. `interrupted_at_ns`: on its clock, where it was interrupted; a replay ends there too.
  [[nodiscard]] tracing::stored end(std::optional<std::int64_t> interrupted_at_ns);

private:
  sim_recording(std::string path, const serve_settings& settings, std::string profile,
                std::unique_ptr<runtime::trace::file_writer> file);

  std::string path_;
  serve_settings settings_;
  std::string profile_;
  std::unique_ptr<runtime::trace::file_writer> file_;
  std::shared_ptr<runtime::trace::recorder> recorder_;
  std::unique_ptr<runtime::trace::file_feed> feed_;
};

} // namespace godwit::main
