#pragma once

#include <godwit/runtime/metrics/registry.hpp>

#include <string>
#include <string_view>

namespace godwit::runtime::metrics {

// Prometheus text exposition format 0.0.4.

void append_header(std::string& out, std::string_view name, std::string_view help, std::string_view type);
/// `suffix` is "", "_bucket", "_sum" or "_count"; `le` is the bucket's bound, empty otherwise.
void append_sample(std::string& out, std::string_view name, std::string_view suffix, const labels& of,
                   std::string_view le, std::string_view value);
void append_histogram(std::string& out, std::string_view name, const labels& of, const histogram& h);

/// "0.25", "+Inf", "NaN".
[[nodiscard]] std::string number_text(double x);
[[nodiscard]] bool legal_metric_name(std::string_view name) noexcept;
[[nodiscard]] bool legal_label_name(std::string_view name) noexcept;

} // namespace godwit::runtime::metrics
