#include "main/svg_plot.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace godwit::main {

namespace {

constexpr double width = 720, height = 420;
constexpr double left = 76, right = 18, top = 40, bottom = 56;
// Distinct in print and for the colour-blind (Okabe and Ito).
constexpr std::array<const char*, 7> colours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// One axis: from values to pixels, and where its ticks are.
class axis {
public:
  axis(bool logarithmic, double from_px, double to_px) : log_(logarithmic), from_px_(from_px), to_px_(to_px) {}
  void see(double value) {
    if (!shows(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  [[nodiscard]] bool shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }
  void settle() {
    if (low_ > high_) low_ = log_ ? 1 : 0, high_ = log_ ? 10 : 1;
    if (log_) {
      low_ = std::pow(10.0, std::floor(std::log10(low_)));
      high_ = std::pow(10.0, std::ceil(std::log10(high_)));
      if (low_ == high_) high_ = low_ * 10;
      for (auto at = low_; at <= high_ * 1.001; at *= 10) ticks_.push_back(at);
      return;
    }
    low_ = std::min(low_, 0.0); // lengths from the axis are compared
    if (low_ == high_) high_ = 1;
    const auto rough = (high_ - low_) / 6;
    const auto power = std::pow(10.0, std::floor(std::log10(rough)));
    auto step = 10 * power;
    for (const auto nice : {1.0, 2.0, 5.0})
      if (nice * power >= rough) {
        step = nice * power;
        break;
      }
    low_ = std::floor(low_ / step) * step;
    high_ = std::ceil(high_ / step) * step;
    const auto count = std::lround((high_ - low_) / step);
    for (long i = 0; i <= count; ++i) ticks_.push_back(low_ + static_cast<double>(i) * step);
  }
  [[nodiscard]] double px(double value) const {
    const auto part = log_ ? (std::log10(value) - std::log10(low_)) / (std::log10(high_) - std::log10(low_))
                           : (value - low_) / (high_ - low_);
    return from_px_ + part * (to_px_ - from_px_);
  }
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }

private:
  bool log_;
  double from_px_, to_px_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  std::vector<double> ticks_;
};

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string frame(const svg_plot& plot, const axis& x, const axis& y) {
  std::string out;
  const auto tick = [](double value) { return fmt::format("{:.6g}", std::abs(value) < 1e-12 ? 0.0 : value); };
  for (const auto at : y.ticks()) {
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", left,
                       y.px(at), width - right, y.px(at));
    out += text_at(left - 6, y.px(at) + 4, "end", tick(at));
  }
  for (const auto at : x.ticks()) {
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x.px(at),
                       top, x.px(at), height - bottom);
    out += text_at(x.px(at), height - bottom + 16, "middle", tick(at));
  }
  out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
                     "stroke=\"#444\"/>\n",
                     left, top, width - left - right, height - top - bottom);
  out += text_at(width / 2, 22, "middle", plot.title, " font-size=\"14\"");
  out += text_at(width / 2, height - 14, "middle", plot.x_label);
  out += fmt::format("<text x=\"16\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {0:.1f})\">{1}"
                     "</text>\n",
                     height / 2, escaped(plot.y_label));
  return out;
}

std::string drawn(const svg_plot::line& line, const axis& x, const axis& y, const char* colour) {
  std::string path, dots;
  double before = 0;
  for (const auto& [px, py] : line.points) {
    if (!x.shows(px) || !y.shows(py)) continue;
    if (path.empty())
      path = fmt::format("M{:.1f},{:.1f}", x.px(px), y.px(py));
    else if (line.steps)
      path += fmt::format("L{0:.1f},{1:.1f}L{0:.1f},{2:.1f}", x.px(px), y.px(before), y.px(py));
    else
      path += fmt::format("L{:.1f},{:.1f}", x.px(px), y.px(py));
    before = py;
    if (line.marks)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x.px(px), y.px(py), colour);
  }
  if (path.empty()) return {};
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, colour) + dots;
}

} // namespace

std::string to_svg(const svg_plot& plot) {
  axis x(plot.log_x, left, width - right), y(plot.log_y, height - bottom, top);
  for (const auto& line : plot.lines)
    for (const auto& [px, py] : line.points)
      if (x.shows(px) && y.shows(py)) x.see(px), y.see(py);
  x.settle();
  y.settle();
  auto out = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
                         "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n"
                         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                         width, height);
  out += frame(plot, x, y);
  const auto named = std::count_if(plot.lines.begin(), plot.lines.end(), [](const auto& l) { return !l.name.empty(); });
  double legend_y = plot.legend_below ? height - bottom - 15 * static_cast<double>(named) + 3 : top + 16;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const auto* const colour = colours[i % colours.size()];
    out += drawn(plot.lines[i], x, y, colour);
    if (plot.lines[i].name.empty()) continue;
    const auto legend_x = plot.legend_below ? width - right - 30 : left + 10;
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                       "stroke-width=\"3\"/>\n",
                       legend_x, legend_y - 4, legend_x + 20, legend_y - 4, colour);
    out += plot.legend_below ? text_at(legend_x - 6, legend_y, "end", plot.lines[i].name)
                             : text_at(legend_x + 26, legend_y, "start", plot.lines[i].name);
    legend_y += 15;
  }
  return out + "</svg>\n";
}

} // namespace godwit::main
