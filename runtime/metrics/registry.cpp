#include <godwit/runtime/metrics/registry.hpp>

#include "metrics/exposition.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace godwit::runtime::metrics {

template <class Instrument> Instrument& family<Instrument>::with(std::vector<std::string> values) {
  if (values.size() != names_.size())
    throw std::invalid_argument("a metric's labels and their values differ in number");
  const auto lock = std::lock_guard(mutex_);
  if (const auto found = series_.find(values); found != series_.end()) return *found->second;
  // The shared series is beyond the bound, so that every asked-for combination up to the bound gets its own.
  if (series_.size() >= series_max_) std::fill(values.begin(), values.end(), "other");
  auto& place = series_[std::move(values)];
  if (!place) place = make_();
  return *place;
}

template <class Instrument> void family<Instrument>::remove(const std::vector<std::string>& values) {
  const auto lock = std::lock_guard(mutex_);
  series_.erase(values);
}

template <class Instrument>
void family<Instrument>::each(const std::function<void(const labels&, const Instrument&)>& visit) const {
  const auto lock = std::lock_guard(mutex_);
  for (const auto& [values, instrument] : series_) {
    auto of = labels();
    for (std::size_t i = 0; i < names_.size(); ++i) of.emplace_back(names_[i], values[i]);
    visit(of, *instrument);
  }
}

template class family<counter>;
template class family<gauge>;
template class family<histogram>;

class registry::impl {
public:
  struct metric {
    std::string name;
    std::string help;
    std::string type;
    std::function<void(std::string&, const metric&)> expose;
    std::shared_ptr<void> owner;  // a family
    const void* called = nullptr; // identity of a callback
  };

  void add(metric m) {
    if (!legal_metric_name(m.name)) throw std::logic_error("illegal metric name: " + m.name);
    const auto lock = std::lock_guard(mutex_);
    for (const auto& taken : taken_names(m))
      if (!names_.insert(taken).second) throw std::logic_error("metric added twice: " + taken);
    metrics_.push_back(std::move(m));
  }

  void remove(const void* called) {
    const auto lock = std::lock_guard(mutex_);
    const auto found =
        std::find_if(metrics_.begin(), metrics_.end(), [&](const metric& m) { return m.called == called; });
    if (found == metrics_.end()) return;
    for (const auto& taken : taken_names(*found)) names_.erase(taken);
    metrics_.erase(found);
  }

  std::string expose() const {
    auto out = std::string();
    const auto lock = std::lock_guard(mutex_);
    for (const auto& m : metrics_) {
      append_header(out, m.name, m.help, m.type);
      m.expose(out, m);
    }
    return out;
  }

private:
  static std::vector<std::string> taken_names(const metric& m) {
    if (m.type != "histogram") return {m.name};
    return {m.name, m.name + "_bucket", m.name + "_sum", m.name + "_count"};
  }

  mutable std::mutex mutex_;
  std::vector<metric> metrics_;
  std::set<std::string> names_;
};

namespace {

void append(std::string& out, std::string_view name, const labels& of, const counter& c) {
  append_sample(out, name, "", of, "", std::to_string(c.value()));
}
void append(std::string& out, std::string_view name, const labels& of, const gauge& g) {
  append_sample(out, name, "", of, "", number_text(g.value()));
}
void append(std::string& out, std::string_view name, const labels& of, const histogram& h) {
  append_histogram(out, name, of, h);
}

constexpr const char* type_name(const counter*) { return "counter"; }
constexpr const char* type_name(const gauge*) { return "gauge"; }
constexpr const char* type_name(const histogram*) { return "histogram"; }

template <class Instrument, class Impl>
family<Instrument>& add_family(Impl& to, std::string name, std::string help, std::vector<std::string> label_names,
                               std::size_t series_max, std::function<std::unique_ptr<Instrument>()> make) {
  for (const auto& l : label_names)
    if (!legal_label_name(l)) throw std::logic_error("illegal label name: " + l);
  auto made = std::make_shared<family<Instrument>>(std::move(label_names), series_max, std::move(make));
  auto m = typename Impl::metric();
  m.name = std::move(name);
  m.help = std::move(help);
  m.type = type_name(static_cast<Instrument*>(nullptr));
  m.owner = made;
  m.expose = [f = made.get()](std::string& out, const typename Impl::metric& of) {
    f->each([&](const labels& values, const Instrument& i) { append(out, of.name, values, i); });
  };
  to.add(std::move(m));
  return *made;
}

template <class Instrument> std::function<std::unique_ptr<Instrument>()> maker() {
  return [] { return std::make_unique<Instrument>(); };
}
std::function<std::unique_ptr<histogram>()> histogram_maker(std::vector<double> bounds) {
  (void)histogram(bounds); // wrong bounds show here, not when the first series is made
  return [bounds = std::move(bounds)] { return std::make_unique<histogram>(bounds); };
}

// What a registration holds; its end removes the callback, unless the registry has gone before.
template <class Impl> struct removal {
  std::weak_ptr<Impl> from;
  ~removal() {
    if (const auto impl = from.lock()) impl->remove(this);
  }
};

} // namespace

registry::registry() : impl_(std::make_shared<impl>()) {}
registry::~registry() = default;
registry::registration::~registration() = default;

counter& registry::add_counter(std::string name, std::string help) {
  return add_family<counter>(*impl_, std::move(name), std::move(help), {}, 1, maker<counter>()).with({});
}
gauge& registry::add_gauge(std::string name, std::string help) {
  return add_family<gauge>(*impl_, std::move(name), std::move(help), {}, 1, maker<gauge>()).with({});
}
histogram& registry::add_histogram(std::string name, std::string help, std::vector<double> bounds) {
  auto make = histogram_maker(std::move(bounds));
  return add_family<histogram>(*impl_, std::move(name), std::move(help), {}, 1, std::move(make)).with({});
}

family<counter>& registry::add_counter_family(std::string name, std::string help, std::vector<std::string> label_names,
                                              std::size_t series_max) {
  return add_family<counter>(*impl_, std::move(name), std::move(help), std::move(label_names), series_max,
                             maker<counter>());
}
family<gauge>& registry::add_gauge_family(std::string name, std::string help, std::vector<std::string> label_names,
                                          std::size_t series_max) {
  return add_family<gauge>(*impl_, std::move(name), std::move(help), std::move(label_names), series_max,
                           maker<gauge>());
}
family<histogram>& registry::add_histogram_family(std::string name, std::string help,
                                                  std::vector<std::string> label_names, std::vector<double> bounds,
                                                  std::size_t series_max) {
  auto make = histogram_maker(std::move(bounds));
  return add_family<histogram>(*impl_, std::move(name), std::move(help), std::move(label_names), series_max,
                               std::move(make));
}

registry::registration registry::add_callback(std::string name, std::string help, std::string type,
                                              std::function<samples()> read) {
  auto held = std::make_shared<removal<impl>>();
  auto m = impl::metric();
  m.name = std::move(name);
  m.help = std::move(help);
  m.type = std::move(type);
  m.called = held.get();
  m.expose = [read = std::move(read)](std::string& out, const impl::metric& of) {
    for (const auto& [values, x] : read()) append_sample(out, of.name, "", values, "", number_text(x));
  };
  impl_->add(std::move(m));
  held->from = impl_; // only now is there anything to remove
  return registration(std::move(held));
}

registry::registration registry::add_callback_gauges(std::string name, std::string help,
                                                     std::function<samples()> read) {
  return add_callback(std::move(name), std::move(help), "gauge", std::move(read));
}
registry::registration registry::add_callback_gauge(std::string name, std::string help, std::function<double()> read) {
  return add_callback(std::move(name), std::move(help), "gauge", [read = std::move(read)] {
    return samples{{labels{}, read()}};
  });
}
registry::registration registry::add_callback_counters(std::string name, std::string help,
                                                       std::function<samples()> read) {
  return add_callback(std::move(name), std::move(help), "counter", std::move(read));
}
registry::registration registry::add_callback_counter(std::string name, std::string help,
                                                      std::function<double()> read) {
  return add_callback(std::move(name), std::move(help), "counter", [read = std::move(read)] {
    return samples{{labels{}, read()}};
  });
}

std::string registry::expose() const { return impl_->expose(); }

} // namespace godwit::runtime::metrics
