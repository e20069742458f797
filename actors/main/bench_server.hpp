#pragma once

#include "main/bench_options.hpp"
#include "main/bench_workload.hpp"

#include <godwit/protocols/expected.hpp>

#include <cstdint>
#include <string>

namespace godwit::main {

/// What is to be known of a server before a run.
struct bench_server {
  std::string base;          ///< "http://127.0.0.1:8000", without /v1
  std::string model;         ///< as requests name it
  std::uint32_t context = 0; ///< tokens of prompt and answer; 0: it does not say
  std::string api_key{};     ///< that it has asked for; empty: none
};

/// Every request in flight is a socket, and the usual soft limit of 1,024 is less than "all at once" may need.
void allow_many_sockets();

/// Asks /v1/models, without a key first: it is sent in the clear, and only to a server that wants one. A server without
/// it will do where the options name a model.
[[nodiscard]] protocols::expected<bench_server, bench_error> find_server(const bench_options& options);

} // namespace godwit::main
