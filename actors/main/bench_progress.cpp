#include "main/bench_progress.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace godwit::main {

namespace {

constexpr double line_interval_s = 5.0;
constexpr double bar_interval_s = 0.2;
constexpr std::size_t bar_width = 24;

} // namespace

void bench_progress::show(const load_progress& now) {
  if (style_ == progress_style::none) return;
  const auto over = now.total > 0 && now.done == now.total;
  const auto passed_s = now.elapsed_s - last_.elapsed_s;
  if (drawn_ && !over && passed_s < (style_ == progress_style::bar ? bar_interval_s : line_interval_s)) return;
  if (style_ == progress_style::lines && !drawn_ && !over && now.elapsed_s < line_interval_s) return;
  // The rate of the last interval, so that a stall shows at once.
  if (passed_s > 0.0) tokens_per_s_ = static_cast<double>(now.pieces - last_.pieces) / passed_s;
  last_ = now;
  drawn_ = true;
  out_ << (style_ == progress_style::bar ? "\r\x1b[K" : "") << line(now) << (style_ == progress_style::bar ? "" : "\n")
       << std::flush;
}

void bench_progress::finish() {
  if (style_ == progress_style::bar && drawn_) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

std::string bench_progress::line(const load_progress& now) const {
  auto out = label_;
  if (style_ == progress_style::bar) {
    const auto filled = now.total == 0 ? 0 : now.done * bar_width / now.total;
    out += " [" + std::string(filled, '#') + std::string(bar_width - filled, ' ') + "]";
  }
  out += fmt::format(" {}/{} done, {} running, {:.0f} tok/s", now.done, now.total, now.running(), tokens_per_s_);
  if (now.failed > 0) out += fmt::format(", {} failed", now.failed);
  return out + fmt::format(", {:.0f} s", now.elapsed_s);
}

} // namespace godwit::main
