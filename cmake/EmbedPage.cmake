cmake_policy(VERSION 3.25)
# Makes one page of its parts, and a C++ source that holds it: cmake -D folder=... -D out=... -P EmbedPage.cmake
# The scripts are joined in the order of `scripts` and become one function's body, so that nothing of them is global.
# The page's policy admits exactly this script and this style, by their hashes.
set(scripts dom units model walk path rows graph topology details requests waterfall sequence search timeline live main)

function(sha256_base64 text result)
  string(SHA256 hex "${text}")
  string(APPEND hex "00") # 32 bytes and one more are eleven groups of three
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(base64 "")
  foreach(group RANGE 0 10)
    math(EXPR at "${group} * 6")
    string(SUBSTRING ${hex} ${at} 6 digits)
    foreach(shift 18 12 6 0)
      math(EXPR letter "(0x${digits} >> ${shift}) & 63")
      string(SUBSTRING ${alphabet} ${letter} 1 letter)
      string(APPEND base64 ${letter})
    endforeach()
  endforeach()
  string(SUBSTRING ${base64} 0 43 base64)
  set(${result} "sha256-${base64}=" PARENT_SCOPE)
endfunction()

set(script "(() => {\n'use strict';\n")
foreach(name ${scripts})
  file(READ ${folder}/${name}.js part)
  string(APPEND script "${part}")
endforeach()
string(APPEND script "})();\n")
file(READ ${folder}/page.css style)
file(READ ${folder}/page.html page)
if("${script}" MATCHES "</script|<!--")
  message(FATAL_ERROR "the scripts hold something that would end the page's <script>")
endif()
sha256_base64("${script}" script_hash)
sha256_base64("${style}" style_hash)
foreach(part script_hash style_hash style script)
  string(REPLACE "@${part}@" "${${part}}" page "${page}")
endforeach()
file(WRITE ${out} "// Made of ${folder} by cmake/EmbedPage.cmake.
#include \"main/trace_page.hpp\"

namespace godwit::main {

std::string_view trace_page() noexcept {
  return R\"page(${page})page\";
}

} // namespace godwit::main
")
