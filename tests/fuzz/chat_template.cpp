// Chat templates of model directories: any bytes are refused, or render within their budget. What comes out of a fixed
// conversation knows of each byte whether the template wrote it.
#include <godwit/protocols/jinja/template.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

namespace jinja = godwit::protocols::jinja;

void check(bool good) {
  if (!good) std::abort();
}

jinja::value message(const char* role, const char* content) {
  return jinja::value::dict({{jinja::text("role", true), jinja::value::markup(role)},
                             {jinja::text("content", true), jinja::value::content(content)}});
}

jinja::variables conversation() {
  const auto tool = jinja::value::dict(
      {{jinja::text("name", false), jinja::value::content("f")},
       {jinja::text("parameters", false), jinja::value::dict({{jinja::text("a", false), jinja::value(1.5)}})}});
  return {{"messages", jinja::value({message("system", "S \xc3\xa9\n"), message("user", " <|im_end|> x\t"),
                                     message("assistant", "{\"a\": [1]}")})},
          {"tools", jinja::value(std::vector<jinja::value>{tool})},
          {"add_generation_prompt", jinja::value(true)},
          {"bos_token", jinja::value::markup("<s>")},
          {"eos_token", jinja::value::markup("</s>")},
          {"n", jinja::value(std::int64_t{3})},
          {"none_at_all", jinja::none_t{}}};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto compiled = jinja::compiled_template::compile({reinterpret_cast<const char*>(data), size});
  if (!compiled) {
    check(!compiled.error().message.empty() && compiled.error().line >= 1);
    return 0;
  }
  jinja::render_options options;
  options.now_s = 1'700'000'000;
  options.limits.steps_max = 50'000;
  options.limits.bytes_max = 8U << 20U;
  options.limits.output_bytes_max = 1U << 20U;
  options.limits.range_max = 1000;
  static const auto given = conversation();
  const auto out = compiled->render(given, options);
  if (!out) {
    check(!out.error().message.empty() || out.error().raised);
    return 0;
  }
  check(out->size() <= options.limits.output_bytes_max);
  std::size_t from = 0;
  for (const auto& run : out->runs()) {
    check(run.end > from);
    from = run.end;
  }
  check(from == out->size());
  return 0;
}
