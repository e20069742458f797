#include "main/batch_file.hpp"

#include "main/bench_answer.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::main {

namespace json = boost::json;
using protocols::expected;
using protocols::unexpected;

namespace {

/// Of a body; its line is a little deeper. Deeper than any server takes them.
constexpr std::size_t body_depth_max = 250, line_depth_max = body_depth_max + 4;

expected<json::object, std::string> object_of(std::string_view text, std::size_t depth_max) {
  json::parse_options options;
  options.max_depth = depth_max;
  boost::system::error_code wrong;
  auto value = json::parse(text, wrong, {}, options);
  if (wrong) return unexpected("it is no JSON (" + wrong.message() + ")");
  if (!value.is_object()) return unexpected(std::string("it is no JSON object"));
  return std::move(value.get_object());
}

const json::string* string_in(const json::object& in, std::string_view name) {
  const auto* found = in.if_contains(name);
  return found == nullptr ? nullptr : found->if_string();
}

std::uint64_t count_in(const json::object& in, std::string_view name) {
  const auto* found = in.if_contains(name);
  return found != nullptr && found->is_int64() && found->get_int64() > 0
             ? static_cast<std::uint64_t>(found->get_int64())
             : 0;
}

/// The bytes of an object's member, of JSON that is known to be right; the last one of that name. Numbers are nobody's
/// to write anew: a server may know more digits of them. Empty: there is none.
std::string_view bytes_of(std::string_view object, std::string_view name) {
  std::string_view out, key;
  std::size_t depth = 0, begin = 0; // `begin`: of what a comma or an end brace ends
  bool is_key = false;
  const auto trimmed = [&](std::size_t from, std::size_t to) {
    const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    while (from < to && space(object[from])) ++from;
    while (to > from && space(object[to - 1])) --to;
    return object.substr(from, to - from);
  };
  for (std::size_t at = 0; at < object.size(); ++at) {
    const char c = object[at];
    if (c == '"') {
      const auto from = ++at;
      while (at < object.size() && object[at] != '"') at += object[at] == '\\' ? 2 : 1;
      if (depth == 1 && is_key) key = object.substr(from, at - from);
    } else if (c == '{' || c == '[') {
      if (++depth == 1) is_key = true;
    } else if (c == ':' && depth == 1 && is_key) {
      is_key = false;
      begin = at + 1;
    } else if (c == ',' || c == '}' || c == ']') {
      if (depth == 1 && !is_key && key == name) out = trimmed(begin, at);
      if (depth == 1) is_key = true;
      if (c != ',') --depth;
    }
  }
  return out;
}

/// Lines of a file, without their ends; empty ones are passed over. Of a line that is too long a little more than may
/// be.
class line_reader {
public:
  explicit line_reader(const std::string& path) : in_(path, std::ios::binary), block_(std::size_t{64} << 10U, '\0') {}
  [[nodiscard]] bool open() const { return in_.is_open(); }
  [[nodiscard]] bool broken() const { return in_.bad(); }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// False at the end, or where nothing can be read.
  bool next(std::string& line) {
    line.clear();
    while (fill()) {
      const auto* const from = block_.data() + at_;
      const auto left = filled_ - at_;
      const auto* const end = static_cast<const char*>(std::memchr(from, '\n', left));
      const auto count = end == nullptr ? left : static_cast<std::size_t>(end - from);
      line.append(from, std::min(count, batch_line_bytes_max + 1 - std::min(line.size(), batch_line_bytes_max + 1)));
      at_ += count + (end == nullptr ? 0 : 1);
      if (end != nullptr && is_one(line)) return true;
    }
    return !line.empty() && is_one(line);
  }

private:
  bool fill() {
    if (at_ < filled_) return true;
    in_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
    filled_ = static_cast<std::size_t>(in_.gcount());
    at_ = 0;
    return filled_ > 0;
  }
  bool is_one(std::string& line) {
    if (++number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3); // a byte order mark
    if (line.ends_with('\r')) line.pop_back();
    return !line.empty();
  }

  std::ifstream in_;
  std::string block_;
  std::size_t at_ = 0, filled_ = 0;
  std::uint64_t number_ = 0;
};

std::string why() { return errno != 0 ? std::strerror(errno) : "unknown error"; }

constexpr std::string_view line_begins = R"({"id":"batch_req_)";

std::string begin_line(std::uint64_t number, const std::string& custom_id) {
  return std::string(line_begins) + std::to_string(number) + R"(","custom_id":)" +
         json::serialize(json::string(custom_id));
}

} // namespace

expected<batch_request, std::string> parse_batch_request(std::string_view line, const std::string& model) {
  if (line.size() > batch_line_bytes_max) return unexpected(std::string("it is longer than 64 MiB"));
  const auto parsed = object_of(line, line_depth_max);
  if (!parsed) return unexpected(parsed.error());
  const auto* id = string_in(*parsed, "custom_id");
  if (id == nullptr || id->empty()) return unexpected(std::string("'custom_id' is not a text that names it"));
  const auto* method = string_in(*parsed, "method");
  if (method == nullptr || *method != "POST") return unexpected(std::string("'method' is not \"POST\""));
  const auto* url = string_in(*parsed, "url");
  const auto path_of = [](const json::string& text) {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f' && c != '#'; });
  };
  if (url == nullptr || !url->starts_with("/v1/") || !path_of(*url))
    return unexpected(std::string("'url' is not the path of an endpoint, such as \"/v1/chat/completions\""));
  const auto bytes = bytes_of(line, "body");
  if (!bytes.starts_with('{')) return unexpected(std::string("'body' is no JSON object"));
  const auto fields = object_of(bytes, body_depth_max);
  if (!fields) return unexpected("'body': " + fields.error());
  if (const auto* stream = fields->if_contains("stream");
      stream != nullptr && !stream->is_null() && *stream != json::value(false))
    return unexpected(std::string("'body' asks for a stream, which a file has no use for"));
  batch_request out{0, std::string(*id), std::string(*url), std::string(bytes), {}};
  if (const auto* named = string_in(*fields, "model")) out.model = *named;
  if (!fields->contains("model") && !model.empty())
    out.body = "{\"model\":" + json::serialize(json::string(model)) + (fields->empty() ? "" : ",") + out.body.substr(1);
  return out;
}

struct batch_reader::impl {
  impl(const std::string& of, std::string named, std::unordered_set<std::string> before)
      : path(of), in(of), model(std::move(named)), answered(std::move(before)) {}
  std::string path;
  line_reader in;
  std::string model;
  std::unordered_set<std::string> answered;
  std::uint64_t requests = 0;
  std::string wrong;
};

batch_reader::batch_reader(const std::string& path, std::string model, std::unordered_set<std::string> answered) {
  errno = 0;
  impl_ = std::make_unique<impl>(path, std::move(model), std::move(answered));
  if (!impl_->in.open()) impl_->wrong = "cannot read " + path + ": " + why();
}
batch_reader::~batch_reader() = default;
batch_reader::batch_reader(batch_reader&&) noexcept = default;

const std::string& batch_reader::wrong() const noexcept { return impl_->wrong; }
std::uint64_t batch_reader::line() const noexcept { return impl_->in.number(); }

std::optional<batch_request> batch_reader::next() {
  auto& of = *impl_;
  errno = 0;
  for (std::string text; of.wrong.empty() && of.in.next(text);) {
    auto request = parse_batch_request(text, of.model);
    if (!request) {
      of.wrong = of.path + ", line " + std::to_string(line()) + ": " + request.error();
      return std::nullopt;
    }
    request->number = ++of.requests;
    if (!of.answered.contains(request->custom_id)) return std::move(*request);
  }
  if (of.in.broken()) of.wrong = "cannot read " + of.path + ": " + why();
  return std::nullopt;
}

expected<batch_contents, std::string> check_batch(const std::string& path, const std::function<bool()>& stopped) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    return unexpected(path + " is no file that can be read twice, as the requests are");
  batch_contents out;
  std::unordered_set<std::string> ids;
  batch_reader in(path, {}, {});
  while (const auto request = in.next()) {
    if (!ids.insert(request->custom_id).second)
      return unexpected(path + ", line " + std::to_string(in.line()) + ": another request has the custom_id '" +
                        one_line(request->custom_id) + "', too");
    out.names_models = out.names_models && !request->model.empty();
    if (out.model.empty()) out.model = request->model;
    ++out.requests;
    if (stopped && stopped()) return unexpected(std::string("stopped before anything was sent"));
  }
  if (!in.wrong().empty()) return unexpected(in.wrong());
  if (out.requests == 0) return unexpected(path + " has no requests");
  return out;
}

bool is_transient(int status) noexcept {
  return status == 0 || status == 408 || status == 425 || status == 429 || status >= 500;
}

std::string batch_answer_line(std::uint64_t number, const std::string& custom_id, int status,
                              const std::string& request_id, const std::string& body) {
  auto named = request_id; // a header may hold any bytes
  std::erase_if(named, [](char c) { return c < ' ' || c > '~'; });
  const bool usable = object_of(body, body_depth_max).has_value();
  auto out = begin_line(number, custom_id) + R"(,"response":{"status_code":)" + std::to_string(status) +
             R"(,"request_id":)" + json::serialize(json::string(named)) + R"(,"body":)";
  const auto begin = out.size();
  out += usable ? body : "null";
  // Such bytes stand between its parts only, and a line has none.
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return out +
         (usable ? R"(},"error":null})" : R"(},"error":{"code":"bad_answer","message":"the body is no JSON object"}})");
}

std::string batch_error_line(std::uint64_t number, const std::string& custom_id, const std::string& code,
                             const std::string& message) {
  return begin_line(number, custom_id) + R"(,"response":null,"error":)" +
         json::serialize(json::object{{"code", code}, {"message", message}}) + "}";
}

expected<batch_outcome, std::string> parse_batch_answer(std::string_view line) {
  const auto parsed = object_of(line, line_depth_max);
  if (!parsed) return unexpected(parsed.error());
  const auto* id = string_in(*parsed, "custom_id");
  const auto* response = parsed->if_contains("response");
  const auto* error = parsed->if_contains("error");
  if (id == nullptr || response == nullptr || error == nullptr)
    return unexpected(std::string("it is no line of answers"));
  batch_outcome out{std::string(*id)};
  if (!response->is_object() || !error->is_null()) return out;
  const auto& told = response->get_object();
  out.status = static_cast<int>(std::min<std::uint64_t>(count_in(told, "status_code"), 999));
  const auto* body = told.if_contains("body");
  const auto* usage = body != nullptr && body->is_object() ? body->get_object().if_contains("usage") : nullptr;
  if (usage != nullptr && usage->is_object()) {
    const auto& counts = usage->get_object();
    out.prompt_tokens = std::max(count_in(counts, "prompt_tokens"), count_in(counts, "input_tokens"));
    out.answer_tokens = std::max(count_in(counts, "completion_tokens"), count_in(counts, "output_tokens"));
  }
  return out;
}

expected<std::unordered_set<std::string>, std::string> keep_answered(const std::string& named) {
  std::unordered_set<std::string> out;
  std::error_code error;
  if (!std::filesystem::exists(named, error)) return out;
  const auto path = std::filesystem::canonical(named, error).string(); // a link stays one
  if (error) return unexpected("cannot read " + named + ": " + error.message());
  struct stat about {};
  errno = 0;
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode))
    return unexpected(named + " is no file whose answers can be read again");
  line_reader in(path);
  if (!in.open()) return unexpected("cannot read " + named + ": " + why());
  const auto beside = path + ".kept-" + std::to_string(::getpid());
  // As private as it was, and nobody else's.
  const auto made = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, about.st_mode & 0777U);
  if (made < 0) return unexpected("cannot write " + beside + ": " + why());
  ::fchmod(made, about.st_mode & 0777U);
  ::close(made);
  std::ofstream to(beside, std::ios::binary | std::ios::trunc);
  const auto give_up = [&](std::string what) {
    to.close();
    std::filesystem::remove(beside, error);
    return unexpected(std::move(what));
  };
  std::string wrong; // the last line may be the half of one
  bool half = false;
  for (std::string line; in.next(line);) {
    if (!wrong.empty()) return give_up(wrong);
    const auto told = parse_batch_answer(line);
    if (!told) {
      wrong = named + ", line " + std::to_string(in.number()) + ": " + told.error() + "; it seems to be another file";
      half = line_begins.starts_with(line) || line.starts_with(line_begins);
    } else if (is_answered(told->status) && out.insert(told->custom_id).second) {
      to << line << '\n';
    }
  }
  if (in.broken()) return give_up("cannot read " + named + ": " + why());
  if (!wrong.empty() && !half) return give_up(wrong);
  to.close();
  if (!to) return give_up("cannot write " + beside + ": " + why());
  std::filesystem::rename(beside, path, error);
  if (error) return give_up("cannot write " + named + ": " + error.message());
  return out;
}

batch_lock::batch_lock(const std::string& path) : descriptor_(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    ::close(std::exchange(descriptor_, -1));
}

batch_lock::~batch_lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

} // namespace godwit::main
