#include "ucx/exposed_memory.hpp"

#include "ucx/wire.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace godwit::transport::ucx {

namespace {
/// Pieces of memory that are told of at a time; blocks of others take other ways.
constexpr std::size_t regions_known_max = 64;
} // namespace

std::shared_ptr<const exposed> exposed::make(std::shared_ptr<ucp_context> context,
                                             const protocols::memory_extent& whole, std::string& why) {
  const auto fails = [&why](ucs_status_t status) {
    if (status != UCS_OK) why = ucs_status_string(status);
    return status != UCS_OK;
  };
  const std::shared_ptr<exposed> made(new exposed);
  made->context_ = std::move(context);
  made->whole_ = whole;
  ucp_mem_map_params_t wanted{};
  wanted.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_PROT;
  wanted.address = whole.address;
  wanted.length = whole.bytes;
  // Nobody needs to write it from outside.
  wanted.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_READ;
  if (fails(ucp_mem_map(made->context_.get(), &wanted, &made->handle_))) return nullptr;
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE;
  if (fails(ucp_mem_query(made->handle_, &attributes))) return nullptr;
  made->type_ = attributes.mem_type;
  void* packed = nullptr;
  std::size_t bytes = 0;
  if (fails(ucp_rkey_pack(made->context_.get(), made->handle_, &packed, &bytes))) return nullptr;
  made->key_.assign(static_cast<const char*>(packed), bytes);
  ucp_rkey_buffer_release(packed);
  if (bytes <= wire::key_bytes_max) return made;
  why = "a key of " + std::to_string(bytes) + " bytes";
  return nullptr;
}

exposed::~exposed() {
  if (handle_ != nullptr) (void)ucp_mem_unmap(context_.get(), handle_);
}

bool exposed::holds(const protocols::memory_region& region) const noexcept {
  return region.address >= whole_.address && region.address + region.bytes <= whole_.address + whole_.bytes;
}

std::shared_ptr<const exposed> exposed_memory::find(const protocols::memory_region& region) {
  const auto whole = find_(region);
  if (!whole || whole->id == 0) return nullptr;
  const bool device = region.kind == protocols::memory_kind::device;
  auto& known = device ? device_ : host_;
  auto found = known.find(whole->id);
  if (found == known.end()) {
    if (known.size() >= regions_known_max) forget_gone();
    if (known.size() >= regions_known_max) return nullptr;
    std::string why;
    auto memory = exposed::make(context_, *whole, why);
    if (memory && device && !trusting_ && memory->type() == UCS_MEMORY_TYPE_HOST) {
      memory.reset();
      why = "it takes a device's for the host's";
    }
    if (!memory && tell_) tell_(why);
    found = known.emplace(whole->id, entry{{whole->address, 0, region.kind}, std::move(memory)}).first;
  }
  const auto& memory = found->second.memory;
  return memory && memory->holds(region) ? memory : nullptr;
}

void exposed_memory::forget_gone() {
  for (auto* known : {&host_, &device_})
    std::erase_if(*known, [this](const auto& one) {
      const auto now = find_(one.second.first);
      return !now || now->id != one.first;
    });
}

} // namespace godwit::transport::ucx
