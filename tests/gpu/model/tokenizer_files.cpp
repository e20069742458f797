#include "gpu/model/tokenizer_files.hpp"

#include <godwit/gpu/model/philox.hpp>

#include <array>

namespace godwit::gpu::model::tests {

using namespace std::string_view_literals;

namespace {

constexpr std::array<std::string_view, 64> fragments{
    "the",
    "The",
    " hacker",
    "Unix",
    "'s",
    "'S",
    "'ll",
    "'LL",
    "'re",
    "'Ve",
    "'",
    "''",
    "don't",
    "1",
    "23",
    "4567",
    "1234567890",
    " 42",
    "3.14",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    " \n",
    "\n ",
    "\t",
    "\t\t",
    "\xC2\xA0",
    "\xE3\x80\x80",
    "\xE2\x80\xA8",
    "!",
    "?!",
    "...",
    " - ",
    "(",
    ")",
    "{}",
    "=>",
    "==",
    "_",
    "foo_bar",
    "fooBar",
    "std::vector<int>",
    "#",
    "//",
    "\\",
    "\xC3\xA9",
    "e\xCC\x81",
    "\xC3\x9Flie\xC3\x9F",
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C",
    "\xE3\x81\x93\xE3\x82\x93",
    "\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4",
    "\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7",
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
    "\xF0\x9F\x98\x80",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
    "\xE2\x85\xA7",
    "\xC2\xBD",
    "\xD9\xA3",
    "<|im_end|>",
    "<|im_start|>"};

std::string mixture(std::uint32_t number) {
  std::string text;
  std::uint32_t drawn = 0;
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(uniform(number, drawn++) * static_cast<double>(bound));
  };
  for (auto count = 1 + below(24); count > 0; --count) text += fragments[below(fragments.size())];
  return text;
}

} // namespace

std::vector<std::string> hard_texts() {
  std::vector<std::string> texts{
      "",
      " ",
      "Hello, world!",
      "The Jargon File: hacker n. [originally, someone who makes furniture with an axe]",
      "I'm sure they're right; it's what we've said, isn't it? YOU'LL SEE, HE'D SAID 'S.",
      "for (int i = 0; i < 10; ++i) {\n\t\tprintf(\"%d\\n\", i);\n    }\n\n\n",
      "        indented by eight\n    by four\n\n\n\nend   ",
      "tab\tand  two   three    four     five",
      "<|im_start|>user\nWhat is a foo?<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|><|im_end|><|endoftext|><|im_en <|im_end|",
      "a<|im_end|> b <|endoftext|>c",
      "12345678901234567890 1,000,000.00 0x1F 1e-9 \xD9\xA1\xD9\xA2\xD9\xA3 \xE2\x85\xA3\xE2\x85\xA4 \xC2\xBC\xC2\xBD",
      "caf\xC3\xA9 cafe\xCC\x81 na\xC3\xAFve \xE2\x84\xAB \xC3\x85 A\xCC\x8A \xEF\xAC\x81 \xE1\xBA\x9B\xCC\xA3",
      "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB \xED\x95\x9C q\xCC\xA3\xCC\x87 q\xCC\x87\xCC\xA3",
      "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7\xE2\x80\x8D\xF0\x9F\x91\xA6 "
      "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA "
      "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD \xE2\x9D\xA4\xEF\xB8\x8F",
      "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE\xE6\x96\x87\xE7\xAB\xA0\xE3\x80\x82\xE4\xB8\xAD\xE6\x96\x87\xE5"
      "\x8F\xA5\xE5\xAD\x90\xE3\x80\x82",
      "\xCE\xB5\xCE\xBB\xCE\xBB\xCE\xB7\xCE\xBD\xCE\xB9\xCE\xBA\xCE\xAC \xD7\xA2\xD7\x91\xD7\xA8\xD7\x99\xD7\xAA "
      "\xE0\xB9\x84\xE0\xB8\x97\xE0\xB8\xA2",
      "\xE2\x80\x9Cquotes\xE2\x80\x9D \xE2\x80\x94 dash \xE2\x80\xA6 \xC2\xA0nbsp\xC2\xA0\xC2\xA0two \xE3\x80\x80wide",
      std::string("nul \0 \x01\x7F end"sv),
      std::string(300, 'a') + std::string(300, ' ') + std::string(300, '\n') + std::string(300, '7') +
          std::string(300, '!'),
  };
  for (std::uint32_t number = 0; number < 3000; ++number) texts.push_back(mixture(number));
  return texts;
}

} // namespace godwit::gpu::model::tests
