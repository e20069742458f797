#include "main/bench_server.hpp"

#include "main/bench_answer.hpp"

#include <godwit/transport/http/client.hpp>
#include <godwit/transport/http/url.hpp>

#include <boost/json.hpp>

#include <optional>
#include <string_view>

#include <sys/resource.h>

namespace godwit::main {

namespace json = boost::json;
using protocols::expected;
using protocols::unexpected;

namespace {

struct model_entry {
  std::string id;
  std::uint32_t context = 0;
};

// The named model, or the first one.
std::optional<model_entry> find_model(const std::string& body, const std::string& name) {
  auto ec = boost::system::error_code{};
  const auto parsed = json::parse(body, ec);
  if (ec || !parsed.is_object()) return std::nullopt;
  const auto* data = parsed.get_object().if_contains("data");
  if (data == nullptr || !data->is_array()) return std::nullopt;
  for (const auto& entry : data->get_array()) {
    const auto* object = entry.if_object();
    const auto* id = object == nullptr ? nullptr : object->if_contains("id");
    if (id == nullptr || !id->is_string()) continue;
    auto found = model_entry{std::string(id->get_string()), 0};
    if (!name.empty() && found.id != name) continue;
    const auto* context = object->if_contains("max_model_len");
    if (context != nullptr && context->is_int64() && context->get_int64() > 0 && context->get_int64() <= UINT32_MAX)
      found.context = static_cast<std::uint32_t>(context->get_int64());
    return found;
  }
  return std::nullopt;
}

// People copy the URL from an OpenAI client, which wants the /v1.
std::string base_of(std::string_view url) {
  while (url.ends_with('/')) url.remove_suffix(1);
  if (url.ends_with("/v1")) url.remove_suffix(3);
  return std::string(url);
}

} // namespace

void allow_many_sockets() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

expected<bench_server, bench_error> find_server(const bench_options& options) {
  auto out = bench_server{base_of(options.url), options.model, 0};
  const auto url = transport::http::parse_url(out.base);
  if (const auto* wrong = std::get_if<transport::http::url_error>(&url))
    return unexpected(bench_error{2, "--url: " + wrong->message});

  auto settings = transport::http::client_settings{};
  settings.total_timeout = std::chrono::seconds(10);
  settings.tls = options.tls;
  auto client = transport::http::client(settings);
  auto request = transport::http::client_request{};
  request.url = out.base + "/v1/models";
  const auto refused = [](const auto& what) {
    const auto* answer = std::get_if<transport::http::client_answer>(&what);
    return answer != nullptr && (answer->status == 401 || answer->status == 403);
  };
  auto fetched = client.fetch(request);
  if (refused(fetched) && !options.api_key.empty()) {
    out.api_key = options.api_key;
    request.fields.add("Authorization", "Bearer " + out.api_key);
    fetched = client.fetch(request);
  }
  if (const auto* error = std::get_if<transport::http::client_error>(&fetched))
    return unexpected(bench_error{1, "no server answers at " + out.base + " (" + one_line(error->message) +
                                         "); start one with 'godwit serve', or name it with --url"});
  const auto& answer = std::get<transport::http::client_answer>(fetched);
  const auto found = answer.status == 200 ? find_model(answer.body, options.model) : std::nullopt;
  if (found) {
    out.model = found->id;
    out.context = found->context;
  } else if (refused(fetched) && options.model.empty()) {
    return unexpected(bench_error{1, out.base + (out.api_key.empty() ? " wants a key" : " does not take this key") +
                                         " (HTTP " + std::to_string(answer.status) +
                                         "); put one that it knows into OPENAI_API_KEY"});
  } else if (answer.status == 503) {
    return unexpected(bench_error{1, out.base + " is not ready (" + error_text(answer.body) +
                                         "); try again when its model is loaded"});
  } else if (options.model.empty()) {
    return unexpected(bench_error{1, out.base + "/v1/models names no model (HTTP " + std::to_string(answer.status) +
                                         "); name one with --model"});
  }
  return out;
}

} // namespace godwit::main
