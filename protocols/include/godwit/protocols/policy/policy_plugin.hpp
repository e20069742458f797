#pragma once

#include <godwit/protocols/policy/own_policies.hpp>

#include <cstdint>
#include <string>
#include <string_view>

/// A shared library of policies that `godwit serve`, `sim` and others load by --policy-plugin, so that an idea is
/// tried with all that the command can do, without a program of one's own (docs/embedding.md, section 8):
///
///   godwit::protocols::own_policies mine(std::string_view arguments) { ... }
///   GODWIT_POLICIES(mine)
///
/// The library has its own copy of godwit::protocols, and is of the same build as the program that loads it: the CMake
/// target godwit::policy_plugin sees to both.
#ifndef GODWIT_POLICY_INTERFACE
#error                                                                                                                 \
    "GODWIT_POLICY_INTERFACE is not defined: link the CMake target godwit::policy_plugin, which says of which build it is"
#endif

namespace godwit::protocols {

/// What the library's one C function returns. The first two fields never change their places.
struct policy_plugin_entry {
  std::uint32_t abi;
  const char* build; ///< as policy_build_in_words()
  /// Of the text of --policy-arguments. Throws std::exception with one line where that makes no sense. Called several
  /// times for a run, as are the factories that it gives, and gives the same each time: nothing that two of them share
  /// may change, and a large table is best read once.
  own_policies (*make)(std::string_view arguments);
};

inline constexpr std::uint32_t policy_plugin_abi = 1;
inline constexpr const char* policy_plugin_function = "godwit_policies";
using policy_plugin_function_type = const policy_plugin_entry*();

/// Equal in two files whose objects may meet: version, the text of the headers of what crosses the border, compiler,
/// and the standard library with what its users can say about its types.
[[nodiscard]] inline std::string policy_build_in_words() {
  std::string library = "unknown";
#if defined(__GLIBCXX__)
  library = "libstdc++ " + std::to_string(__GLIBCXX__);
#elif defined(_LIBCPP_VERSION)
  library = "libc++ " + std::to_string(_LIBCPP_VERSION);
#endif
#if defined(_GLIBCXX_DEBUG)
  library += " in debug mode";
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
  library += " with its old strings";
#endif
  const auto sizes = std::to_string(sizeof(own_policies)) + "/" + std::to_string(sizeof(load_report)) + "/" +
                     std::to_string(sizeof(possible_move)) + "/" + std::to_string(sizeof(scaling_view)) + "/" +
                     std::to_string(sizeof(dispatcher));
  return std::string("godwit ") + GODWIT_POLICY_INTERFACE + ", compiler " + __VERSION__ + ", " + library + ", sizes " +
         sizes;
}

} // namespace godwit::protocols

/// Once in a library: `function` is an own_policies(std::string_view arguments).
#define GODWIT_POLICIES(function)                                                                                      \
  extern "C" __attribute__((visibility("default"))) const godwit::protocols::policy_plugin_entry* godwit_policies() {  \
    static const std::string build = godwit::protocols::policy_build_in_words();                                       \
    static const godwit::protocols::policy_plugin_entry entry{godwit::protocols::policy_plugin_abi, build.c_str(),     \
                                                              &(function)};                                            \
    return &entry;                                                                                                     \
  }
