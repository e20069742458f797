#pragma once

#include <godwit/runtime/metrics/instruments.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace godwit::runtime::metrics {

using labels = std::vector<std::pair<std::string, std::string>>;

/// The series of one metric, told apart by the values of its labels.
///
/// Labels often come from outside (a model name, a status), and each new value costs memory for ever, so their number
/// is bounded: past `series_max` every further combination shares the series whose labels all say "other". Look a
/// series up once and keep the reference: it lives as long as the registry, or until it is removed.
template <class Instrument> class family {
public:
  family(std::vector<std::string> label_names, std::size_t series_max,
         std::function<std::unique_ptr<Instrument>()> make)
      : names_(std::move(label_names)), series_max_(series_max), make_(std::move(make)) {}

  /// Values in the order of the label names; std::invalid_argument if their number differs.
  [[nodiscard]] Instrument& with(std::vector<std::string> values);
  /// Ends a series, for one that is not counted any more to give its place to another.
  void remove(const std::vector<std::string>& values);
  void each(const std::function<void(const labels&, const Instrument&)>& visit) const;

private:
  std::vector<std::string> names_;
  std::size_t series_max_;
  std::function<std::unique_ptr<Instrument>()> make_;
  mutable std::mutex mutex_;
  std::map<std::vector<std::string>, std::unique_ptr<Instrument>> series_;
};

extern template class family<counter>;
extern template class family<gauge>;
extern template class family<histogram>;

/// Every metric of a process, and their page for Prometheus (text format 0.0.4). Passed as an argument. Thread-safe.
///
///     metrics::registry metrics;
///     auto& requests = metrics.add_counter("godwit_requests_total", "Requests accepted.");
///     auto& ttft = metrics.add_histogram("godwit_ttft_seconds", "Time to the first token.", exponential_bounds(0.001,
///     2, 14)); auto& answers = metrics.add_counter_family("godwit_answers_total", "Answers by status.", {"status"});
///     answers.with({"200"}).increment();
///
/// References live as long as the registry. A name twice or an illegal name is a bug of ours: std::logic_error.
class registry {
public:
  registry();
  ~registry();
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  counter& add_counter(std::string name, std::string help);
  gauge& add_gauge(std::string name, std::string help);
  histogram& add_histogram(std::string name, std::string help, std::vector<double> bounds);

  family<counter>& add_counter_family(std::string name, std::string help, std::vector<std::string> label_names,
                                      std::size_t series_max = 64);
  family<gauge>& add_gauge_family(std::string name, std::string help, std::vector<std::string> label_names,
                                  std::size_t series_max = 64);
  family<histogram>& add_histogram_family(std::string name, std::string help, std::vector<std::string> label_names,
                                          std::vector<double> bounds, std::size_t series_max = 64);

  /// Ends a callback when destroyed, waiting for a call of it that runs. May outlive the registry.
  class registration {
  public:
    registration() = default;
    explicit registration(std::shared_ptr<void> held) : held_(std::move(held)) {}
    registration(registration&&) noexcept = default;
    registration& operator=(registration&&) noexcept = default;
    ~registration();

  private:
    std::shared_ptr<void> held_;
  };
  using samples = std::vector<std::pair<labels, double>>;
  /// Values that are read when the page is asked for. `read` is called on the asking thread and must not block.
  [[nodiscard]] registration add_callback_gauge(std::string name, std::string help, std::function<double()> read);
  [[nodiscard]] registration add_callback_gauges(std::string name, std::string help, std::function<samples()> read);
  [[nodiscard]] registration add_callback_counter(std::string name, std::string help, std::function<double()> read);
  [[nodiscard]] registration add_callback_counters(std::string name, std::string help, std::function<samples()> read);

  /// Metrics in the order in which they were added.
  [[nodiscard]] std::string expose() const;
  /// For the Content-Type of that page.
  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

private:
  class impl;
  registration add_callback(std::string name, std::string help, std::string type, std::function<samples()> read);
  std::shared_ptr<impl> impl_;
};

} // namespace godwit::runtime::metrics
