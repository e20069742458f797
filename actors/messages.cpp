#include <godwit/actors/interfaces.hpp>

// Here the messages of all actors are described, and in no other file.
GODWIT_ACTOR_MESSAGES(GODWIT_DESCRIBED_HERE)
