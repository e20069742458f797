#pragma once

#include <godwit/protocols/messages/migration.hpp>

#include <boost/json.hpp>

namespace godwit::main {

/// How a migration went, as `godwit migrate --json` and `godwit status --request --json` show it.
[[nodiscard]] boost::json::object migration_json(const protocols::migration_report& report);

} // namespace godwit::main
