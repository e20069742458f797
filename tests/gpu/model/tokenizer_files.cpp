#include "gpu/model/tokenizer_files.hpp"

#include "model/utf8.hpp"

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

std::vector<std::string> texts_of_many_scripts() {
  struct stretch {
    char32_t first, last;
  };
  constexpr std::array stretches{
      stretch{0xA1, 0x17E},      stretch{0x180, 0x24F},     stretch{0x250, 0x2FF},     stretch{0x300, 0x34E},
      stretch{0x386, 0x38A},     stretch{0x38E, 0x3A1},     stretch{0x3A3, 0x52F},     stretch{0x531, 0x556},
      stretch{0x559, 0x58A},     stretch{0x591, 0x5C7},     stretch{0x5D0, 0x5EA},     stretch{0x620, 0x6FF},
      stretch{0x900, 0x983},     stretch{0x985, 0x98C},     stretch{0x9BC, 0x9C4},     stretch{0xB95, 0xB95},
      stretch{0xE01, 0xE3A},     stretch{0xE3F, 0xE5B},     stretch{0xF00, 0xF47},     stretch{0xF71, 0xF97},
      stretch{0x1000, 0x10C5},   stretch{0x10D0, 0x11FF},   stretch{0x13A0, 0x13F5},   stretch{0x1780, 0x17DD},
      stretch{0x1820, 0x1878},   stretch{0x1E00, 0x1F15},   stretch{0x1FB6, 0x1FC4},   stretch{0x2010, 0x2064},
      stretch{0x2070, 0x2071},   stretch{0x2074, 0x208E},   stretch{0x2100, 0x218B},   stretch{0x2190, 0x21FF},
      stretch{0x2460, 0x257F},   stretch{0x2E80, 0x2E99},   stretch{0x3000, 0x303F},   stretch{0x3041, 0x3096},
      stretch{0x3099, 0x30FF},   stretch{0x3105, 0x312F},   stretch{0x3200, 0x321E},   stretch{0x4DC0, 0x4E60},
      stretch{0xA960, 0xA97C},   stretch{0xAC00, 0xAC40},   stretch{0xD7B0, 0xD7C6},   stretch{0xF900, 0xF940},
      stretch{0xFB00, 0xFB06},   stretch{0xFB1D, 0xFB36},   stretch{0xFDF0, 0xFDFC},   stretch{0xFF01, 0xFFBE},
      stretch{0x10000, 0x1000B}, stretch{0x10400, 0x1044F}, stretch{0x11099, 0x110BA}, stretch{0x12000, 0x12040},
      stretch{0x1D15E, 0x1D164}, stretch{0x1D400, 0x1D454}, stretch{0x1D7CE, 0x1D7FF}, stretch{0x1F130, 0x1F189},
      stretch{0x1F1E6, 0x1F202}, stretch{0x1F300, 0x1F64F}, stretch{0x20000, 0x20020}, stretch{0x2F800, 0x2F820}};
  std::vector<std::string> texts;
  std::string all;
  for (const auto& one : stretches) {
    std::string close, apart, marked;
    for (auto code = one.first; code <= one.last; ++code) {
      append_utf8(close, code);
      append_utf8(apart += code % 3 == 0 ? " " : "a", code);
      append_utf8(marked, code);
      append_utf8(marked, code % 2 == 0 ? U'\x301' : U'\x327');
    }
    all += marked + close;
    for (auto* text : {&close, &apart, &marked}) texts.push_back(std::move(*text));
  }
  texts.push_back(std::move(all));
  return texts;
}

} // namespace godwit::gpu::model::tests
