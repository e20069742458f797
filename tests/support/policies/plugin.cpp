// A shared library of policies for tests, as --policy-plugin takes it. FAKE: one that is not of this build (2), or
// speaks another version of the interface (3), as it says itself.
#include <godwit/protocols/policy/policy_plugin.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace godwit::protocols;

// The instance with the lowest number, as long as it takes requests.
class lowest final : public dispatcher {
public:
  explicit lowest(std::string name = "lowest") : name_(std::move(name)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }

private:
  [[nodiscard]] double rate(const load_report& report, const picked_load&) const noexcept override {
    return -static_cast<double>(report.instance.value());
  }
  [[nodiscard]] double score(double rating) const noexcept override { return -rating; }
  std::string name_;
};

// Of 100 tokens, whoever asks.
class hundred final : public length_predictor {
public:
  [[nodiscard]] length_forecast predict(const length_question&) override { return {100, length_class(100)}; }
  void ended(const length_question&, std::uint32_t) override {}
};

// A word for each thing that is its own.
own_policies policies_for_tests(std::string_view arguments) {
  own_policies out;
  out.dispatchers["lowest"] = [] { return std::make_unique<lowest>(); };
  if (arguments == "largest")
    out.move = [](const auto& moves, const auto&, const auto&) { return std::optional(moves.size() - 1); };
  else if (arguments == "stay")
    out.move = [](const auto&, const auto&, const auto&) { return std::optional<std::size_t>(); };
  else if (arguments == "unpaired")
    out.pair = [](const auto&, const auto&, auto) { return std::vector<migration_pair>(); };
  else if (arguments == "hundred")
    out.lengths = [] { return std::make_unique<hundred>(); };
  else if (arguments == "throws")
    out.pair = [](const auto&, const auto&, auto) -> std::vector<migration_pair> {
      throw std::runtime_error("there is no table");
    };
  else if (arguments == "built in")
    out.dispatchers["infaas"] = out.dispatchers["lowest"];
  else if (arguments == "nothing")
    out.dispatchers["nothing"] = nullptr;
  else if (arguments == "llumnix" || arguments == "retry" || arguments == "a name" || arguments == " ")
    out.dispatchers[std::string(arguments)] = [name = std::string(arguments)] {
      return std::make_unique<lowest>(name);
    };
  else if (arguments == "misnamed")
    out.dispatchers["highest"] = out.dispatchers["lowest"];
  else if (arguments == "unmade")
    out.dispatchers["unmade"] = []() -> std::unique_ptr<dispatcher> { throw std::runtime_error("there is no table"); };
  else if (arguments == "no words")
    throw std::invalid_argument("");
  else if (arguments == "two lines")
    throw std::invalid_argument("one\n\033[31mtwo");
  else if (arguments == "no prophet")
    out.lengths = []() -> std::unique_ptr<length_predictor> { throw std::runtime_error("no prophet"); };
  else if (!arguments.empty())
    throw std::invalid_argument("'" + std::string(arguments) + "' is no argument of these policies");
  return out;
}

} // namespace

#if FAKE == 0
GODWIT_POLICIES(policies_for_tests)
#else
extern "C" __attribute__((visibility("default"))) const policy_plugin_entry* godwit_policies() {
  static const std::string build = FAKE == 2 ? "godwit 0.0.1, compiler of another time" : policy_build_in_words();
  static const policy_plugin_entry entry{FAKE == 3 ? 77U : policy_plugin_abi, build.c_str(), &policies_for_tests};
  return &entry;
}
#endif
