#include <godwit/transport/http/url.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::transport::http {
namespace {

TEST(Url, HasHostPortAndTarget) {
  const auto same = [](std::string_view text, const url& expected) {
    const auto parsed = parse_url(text);
    ASSERT_TRUE(std::holds_alternative<url>(parsed)) << std::get<url_error>(parsed).message;
    EXPECT_EQ(std::get<url>(parsed), expected) << text;
  };
  same("http://h", {"h", 80, "/"});
  same("http://h:8000/v1/models?x=1#part", {"h", 8000, "/v1/models?x=1"});
  same("http://127.0.0.1:1?q", {"127.0.0.1", 1, "/?q"});
  same("http://[::1]:65535/", {"::1", 65535, "/"});
  same("https://h/a", {"h", 443, "/a", true});
  same("https://h:8443", {"h", 8443, "/", true});
  EXPECT_EQ((url{"::1", 80, "/"}).authority(), "[::1]:80");
  EXPECT_EQ((url{"::1", 443, "/", true}).origin(), "https://[::1]:443");
}

TEST(Url, AnythingElseIsAnErrorThatSaysWhy) {
  for (const auto& [text, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "neither http:// nor https://"},
           {"localhost:8000", "neither http:// nor https://"},
           {"httpss://h/", "neither http:// nor https://"},
           {"https://", "the host is missing"},
           {"http://", "the host is missing"},
           {"http://:80/", "the host is missing"},
           {"http://h:/", "the port is not a number"},
           {"http://h:0/", "the port is not a number"},
           {"http://h:65536/", "the port is not a number"},
           {"http://h:80x/", "the port is not a number"},
           {"http://[::1/", "the ] of the address is missing"},
           {"http://[::1]x/", "something other than a port"},
           {"http://u:p@h/", "user names are not supported"},
           {"http://h/a b", "blank or a control character"},
           {"http://h/\r\nX: y", "blank or a control character"}}) {
    const auto parsed = parse_url(text);
    ASSERT_TRUE(std::holds_alternative<url_error>(parsed)) << text;
    EXPECT_THAT(std::get<url_error>(parsed).message, ::testing::HasSubstr(why));
  }
}

} // namespace
} // namespace godwit::transport::http
