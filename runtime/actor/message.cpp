#include <godwit/runtime/message.hpp>

GODWIT_DESCRIBED_HERE(godwit::runtime::done)
