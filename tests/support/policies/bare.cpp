// A shared library without policies: one whose build differs in a way that no header shows, or that gives nothing at
// all.
#include <godwit/protocols/policy/policy_plugin.hpp>

#if GIVES_NOTHING
extern "C" __attribute__((visibility("default"))) const godwit::protocols::policy_plugin_entry* godwit_policies() {
  return nullptr;
}
#else
namespace {
godwit::protocols::own_policies none(std::string_view) { return {}; }
} // namespace
GODWIT_POLICIES(none)
#endif
