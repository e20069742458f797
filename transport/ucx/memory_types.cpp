#include <godwit/transport/ucx/fabric.hpp>

#include <ucp/api/ucp.h>

namespace godwit::transport::ucx {

std::string memory_types(const std::string& transports) {
  ucp_config_t* config = nullptr;
  if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return {};
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM;
  ucp_context_h context = nullptr;
  const bool made = ucp_config_modify(config, "TLS", transports.c_str()) == UCS_OK &&
                    ucp_init(&parameters, config, &context) == UCS_OK;
  ucp_config_release(config);
  if (!made) return {};
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  std::string out;
  if (ucp_context_query(context, &found) == UCS_OK)
    for (int type = 0; type < UCS_MEMORY_TYPE_LAST; ++type)
      if ((found.memory_types >> static_cast<unsigned>(type) & 1U) != 0)
        out += (out.empty() ? "" : ", ") + std::string(ucs_memory_type_names[type]);
  ucp_cleanup(context);
  return out;
}

} // namespace godwit::transport::ucx
