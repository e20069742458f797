#pragma once

#include "jinja/ast.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::jinja {

/// Variables of one block. Lives until the rendering ends, because macros look into the one that they stand in.
struct scope {
  const scope* parent = nullptr;
  std::vector<std::pair<std::string_view, value>> own;
};

struct object {
  enum class kind : std::uint8_t { name_space, loop, function, macro, method, cycler, joiner };
  explicit object(kind which) : type(which) {}
  kind type;
  std::string_view name;                                 ///< of a function, macro or method
  std::vector<std::pair<std::string, value>> attributes; ///< of a namespace
  std::vector<value> held;                               ///< a loop's or cycler's items, a method's object
  value items;                                           ///< a loop's: a list, until the loop ends
  std::size_t count = 0;                                 ///< of a loop's items
  std::size_t index = 0;                                 ///< a loop's or cycler's place
  const node* code = nullptr;                            ///< a macro's
  const scope* around = nullptr;                         ///< a macro's
};

struct call_arguments {
  std::vector<value> positional;
  std::vector<std::pair<std::string, value>> named;

  [[nodiscard]] const value* named_as(std::string_view name) const;
  /// The argument at a place or of a name; null where there is neither.
  [[nodiscard]] const value* get(std::size_t place, std::string_view name) const;
  /// The argument `attribute`, of filters that look into the items; null where there is none, or none.
  [[nodiscard]] const value* path(std::size_t place) const;
};

/// An expression in the words of an error.
[[nodiscard]] std::string describe(const node& what);

/// One rendering: walks the tree with a budget. Throws `failure`.
class interpreter {
public:
  interpreter(const render_options& options, const variables& given);
  ~interpreter();
  interpreter(const interpreter&) = delete;
  interpreter& operator=(const interpreter&) = delete;

  [[nodiscard]] text run(const node& root);

  /// Counts how deep the walk is, for as long as it lives: bounds the machine's stack.
  class depth_guard {
  public:
    explicit depth_guard(interpreter& of) : of_(of) {
      if (of_.depth_ >= depth_max) of_.fail("the template is nested too deeply");
      ++of_.depth_;
    }
    ~depth_guard() { --of_.depth_; }
    depth_guard(const depth_guard&) = delete;
    depth_guard& operator=(const depth_guard&) = delete;

  private:
    static constexpr std::uint32_t depth_max = 800;
    interpreter& of_;
  };

  // The budget.
  void charge(std::uint64_t steps);
  void charge_bytes(std::uint64_t bytes);
  /// Before a text is copied.
  void charge_copies(const text& of, std::uint64_t times = 1);
  /// Before a name is compared with `among` others, one after the other.
  void charge_lookup(std::size_t among, std::size_t name_bytes);
  [[nodiscard]] const render_limits& limits() const noexcept { return options_.limits; }
  [[noreturn]] void fail(std::string message, bool raised = false) const {
    jinja::fail(line_, std::move(message), raised);
  }

  // Values; each charges what it makes.
  [[nodiscard]] value make(text bytes);
  [[nodiscard]] value make(std::vector<value> items);
  [[nodiscard]] value make_dict(std::vector<dict_entry> entries);
  [[nodiscard]] value make_object(object thing);
  [[nodiscard]] bool truth(const value& of) const;
  /// As `{{ }}` and `~` show it.
  [[nodiscard]] text shown(const value& of);
  void show(text& out, const value& of);
  /// As it stands within a list.
  void show_quoted(text& out, const value& of);
  [[nodiscard]] bool equal(const value& a, const value& b);
  /// < 0, 0 or > 0; fails where there is no order.
  [[nodiscard]] int order(const value& a, const value& b, bool ignore_case = false);
  [[nodiscard]] bool contains(const value& in, const value& what);
  [[nodiscard]] value binary(std::string_view name, const value& left, const value& right);
  /// The items of a list, keys of a dict, characters of a string.
  [[nodiscard]] std::vector<value> iterate(const value& over);
  [[nodiscard]] std::int64_t integer(const value& of, const char* what) const;
  [[nodiscard]] const text& string(const value& of, const char* what) const;
  /// of.name, of["name"]; "a.b.0" where `path`.
  [[nodiscard]] value attribute(const value& of, std::string_view name);
  [[nodiscard]] value attribute_path(const value& of, const value& path);

  /// Fails where a function is given what it has no parameter for. `parameters`: their names, a blank between them;
  /// "*": whatever comes.
  void check_arguments(std::string_view function, const call_arguments& with, std::string_view parameters) const;
  [[nodiscard]] value call(const value& callee, call_arguments& with);
  [[nodiscard]] value call_method(const value& of, std::string_view name, call_arguments& with);
  [[nodiscard]] value filter(std::string_view name, const value& of, call_arguments& with);
  [[nodiscard]] bool test(std::string_view name, const value& of, call_arguments& with);
  [[nodiscard]] value strip(const text& from, bool left, bool right, std::optional<std::string_view> of);
  /// `count`: null, none or negative for every one.
  [[nodiscard]] value replace(const value& in, const text& what, const text& by, const value* count);
  [[nodiscard]] value to_json(const value& of, const call_arguments& with);

private:
  enum class flow : std::uint8_t { on, stop, next };

  // Statements.
  flow execute(const node& what, scope& in, text& out);
  flow execute_if(const node& what, scope& in, text& out);
  flow execute_for(const node& what, scope& in, text& out);
  void execute_call_block(const node& what, scope& in, text& out);
  void assign(const std::vector<std::string>& targets, value to, scope& in);
  void bind(const std::vector<std::string>& targets, const value& item, scope& in);
  void emit(text& out, const text& bytes);
  [[nodiscard]] scope& new_scope(const scope* parent);
  [[nodiscard]] const value* find(const scope& in, std::string_view name);
  void set(scope& in, std::string_view name, value to);

  // Expressions.
  [[nodiscard]] value evaluate(const node& what, scope& in);
  [[nodiscard]] value evaluate_item(const node& what, scope& in);
  [[nodiscard]] value evaluate_slice(const node& what, scope& in);
  [[nodiscard]] value evaluate_call(const node& what, scope& in);
  [[nodiscard]] value evaluate_joined(const node& what, scope& in);
  [[nodiscard]] value evaluate_compare(const node& what, scope& in);
  [[nodiscard]] value evaluate_unary(const node& what, scope& in);
  [[nodiscard]] call_arguments arguments(const node& what, scope& in);

  [[nodiscard]] value call_macro(const object& macro, call_arguments& with);
  [[nodiscard]] value call_function(std::string_view name, call_arguments& with);
  [[nodiscard]] value string_method(const value& of, std::string_view name, call_arguments& with);
  [[nodiscard]] value loop_attribute(const object& loop, std::string_view name);

  const render_options& options_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t line_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t calls_ = 0;
  std::deque<scope> scopes_;
  std::vector<std::shared_ptr<object>> objects_; ///< may refer to each other in circles, which the end has to cut
  scope* globals_ = nullptr;
};

} // namespace godwit::protocols::jinja
