#include "ucx/remote_reads.hpp"

#include "ucx/common_parts.hpp"

namespace godwit::transport::ucx {

void remote_reads::begin(ucp_ep_h from, order what) {
  open_.emplace_front();
  auto& made = open_.front();
  made.owner = this;
  made.self = open_.begin();
  made.what = std::move(what);
  made.parts = 1; // this call's, so that the last one cannot end within it
  auto status = UCS_OK;
  for (const auto& key : made.what.from.keys) {
    // UCX believes what it is given: which kinds of memory there are, and that a key is as long as it says.
    constexpr std::size_t kind_at = 8, padding = std::size_t{64} * 256;
    if (key.size() <= kind_at || static_cast<unsigned char>(key[kind_at]) >= UCS_MEMORY_TYPE_LAST) {
      status = UCS_ERR_INVALID_PARAM;
      break;
    }
    ucp_rkey_h unpacked = nullptr;
    status = ucp_ep_rkey_unpack(from, (key + std::string(padding, '\0')).data(), &unpacked);
    if (status != UCS_OK) break;
    made.keys.push_back(unpacked);
  }
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.user_data = &made;
  how.cb.send = [](void* request, ucs_status_t result, void* data) {
    ucp_request_free(request);
    part_ended(*static_cast<reading*>(data), result);
  };
  if (made.what.type != UCS_MEMORY_TYPE_UNKNOWN) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    how.memory_type = made.what.type;
  }
  const auto& spans = made.what.from.spans;
  common_parts places(spans, made.what.into);
  for (auto part = places.next(); part.bytes != 0 && status == UCS_OK; part = places.next()) {
    auto* request = ucp_get_nbx(from, part.into, part.bytes, part.from, made.keys[spans[part.span].key], &how);
    if (UCS_PTR_IS_ERR(request))
      status = UCS_PTR_STATUS(request);
    else if (request != nullptr)
      ++made.parts;
  }
  part_ended(made, status);
}

// Others of the same read may still write: it has ended with the last of them.
void remote_reads::part_ended(reading& of, ucs_status_t status) {
  if (status != UCS_OK && of.error.empty()) of.error = ucs_status_string(status);
  if (--of.parts != 0) return;
  for (auto* key : of.keys) ucp_rkey_destroy(key);
  auto& owner = *of.owner;
  owner.ended_.emplace_back(std::move(of.what.ended), std::move(of.error));
  owner.open_.erase(of.self);
}

void remote_reads::forget() {
  open_.clear(); // its keys went with the worker, whose memory they are
  ended_.clear();
}

bool remote_reads::run() {
  auto ended = std::move(ended_);
  ended_.clear();
  for (const auto& [tell, error] : ended) tell(error);
  return !ended.empty();
}

} // namespace godwit::transport::ucx
