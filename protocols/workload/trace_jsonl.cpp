#include "workload/trace_line.hpp"

#include <charconv>

namespace godwit::protocols::workload {

namespace {

constexpr int nesting_max = 16;
constexpr std::size_t hashes_max = 1 << 16;

/// Reads one line's JSON, as much of it as traces need. The first error stays and makes every further call fail.
class json_cursor {
public:
  explicit json_cursor(std::string_view line) : line_(line) {}

  bool fail(const std::string& message) { return fail_at(at_, message); }
  bool fail_at(std::size_t at, const std::string& message) {
    if (!error_) error_ = line_error{at + 1, message};
    return false;
  }
  [[nodiscard]] const std::optional<line_error>& error() const { return error_; }
  [[nodiscard]] std::size_t at() const { return at_; }

  void blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (error_ || at_ == line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool expect(char c) { return take(c) || fail(std::string("expected ") + c); }
  bool at_end() {
    blanks();
    return at_ == line_.size();
  }

  /// The text between the quotes, escapes as they stand.
  std::optional<std::string_view> string() {
    if (!expect('"')) return std::nullopt;
    const auto begin = at_;
    for (; at_ < line_.size() && line_[at_] != '"'; ++at_)
      if (line_[at_] == '\\') ++at_;
    if (at_ >= line_.size()) {
      fail_at(begin - 1, "the closing quote is missing");
      return std::nullopt;
    }
    return line_.substr(begin, at_++ - begin);
  }
  /// A number, or one of the words true, false and null.
  std::string_view scalar() {
    blanks();
    const auto begin = at_;
    while (at_ < line_.size() && std::string_view(" \t,]}").find(line_[at_]) == std::string_view::npos) ++at_;
    return line_.substr(begin, at_ - begin);
  }
  /// Whatever comes, unread: a field that is not ours.
  bool skip(int depth = 0) {
    if (depth == nesting_max) return fail("nested too deeply");
    blanks();
    if (at_ < line_.size() && line_[at_] == '"') return string().has_value();
    if (take('[')) return skip_list(']', depth);
    if (take('{')) return skip_list('}', depth);
    return !scalar().empty() || fail("expected a value");
  }

private:
  bool skip_list(char close, int depth) {
    if (take(close)) return true;
    do {
      if (close == '}' && (!string() || !expect(':'))) return false;
      if (!skip(depth + 1)) return false;
    } while (take(','));
    return expect(close);
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::optional<line_error> error_;
};

bool read_tokens(json_cursor& in, std::uint32_t& tokens) {
  in.blanks();
  const auto begin = in.at();
  const auto text = in.scalar();
  const auto count = parse_token_count(text);
  if (!count) return in.fail_at(begin, "expected a number of tokens, found " + quoted(text));
  tokens = *count;
  return true;
}

bool read_time(json_cursor& in, std::int64_t& time_ns) {
  in.blanks();
  const auto begin = in.at();
  const auto text = in.scalar();
  const auto time = parse_decimal_ns(text, 1'000'000);
  if (!time) return in.fail_at(begin, "expected a time in ms, found " + quoted(text));
  time_ns = *time;
  return true;
}

bool read_hashes(json_cursor& in, std::vector<std::uint64_t>& hashes) {
  hashes.clear();
  if (!in.expect('[')) return false;
  if (in.take(']')) return true;
  do {
    in.blanks();
    const auto begin = in.at();
    if (hashes.size() == hashes_max) return in.fail("more than 65536 hash_ids");
    const auto text = in.scalar();
    auto hash = std::uint64_t{0};
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), hash);
    if (ec != std::errc{} || end != text.data() + text.size())
      return in.fail_at(begin, "expected a hash id, found " + quoted(text));
    hashes.push_back(hash);
  } while (in.take(','));
  return in.expect(']');
}

} // namespace

expected<trace_line, line_error> read_mooncake_line(std::string_view line) {
  auto in = json_cursor(line);
  auto out = trace_line{};
  auto has_time = false;
  auto has_prompt = false;
  auto has_answer = false;
  const auto read_field = [&](std::string_view name) {
    if (name == "timestamp") return has_time = read_time(in, out.time_ns);
    if (name == "input_length") return has_prompt = read_tokens(in, out.prompt_tokens);
    if (name == "output_length") return has_answer = read_tokens(in, out.answer_tokens);
    if (name == "hash_ids") return read_hashes(in, out.prefix_hashes);
    return in.skip();
  };
  if (in.expect('{') && !in.take('}')) {
    auto more = true;
    while (more) {
      const auto name = in.string();
      more = name && in.expect(':') && read_field(*name) && in.take(',');
    }
    if (!in.error()) in.expect('}');
  }
  if (!in.error() && !in.at_end()) in.fail("expected the end of the line");
  if (!in.error() && !(has_time && has_prompt && has_answer))
    in.fail_at(0, std::string(!has_time     ? "timestamp"
                              : !has_prompt ? "input_length"
                                            : "output_length") +
                      " is missing");
  if (in.error()) return unexpected(*in.error());
  return out;
}

} // namespace godwit::protocols::workload
