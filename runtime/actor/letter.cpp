#include "actor/letter.hpp"

#include "actor/envelope.hpp"
#include "actor/references.hpp"

#include <caf/deep_to_string.hpp>
#include <caf/message.hpp>
#include <caf/sec.hpp>
#include <caf/type_erased_tuple.hpp>

namespace godwit::runtime::detail {

namespace {

/// What CAF sees of every letter. It has no business with the inside.
class opaque final : public caf::type_erased_tuple {
public:
  void* get_mutable(std::size_t) override { return nullptr; }
  caf::error load(std::size_t, caf::deserializer&) override { return caf::sec::runtime_error; }
  std::size_t size() const noexcept override { return 1; }
  std::uint32_t type_token() const noexcept override { return 0xFFFFFFFF; }
  caf::rtti_pair type(std::size_t) const noexcept override { return {0, &typeid(letter)}; }
  const void* get(std::size_t) const noexcept override { return nullptr; }
  std::string stringify(std::size_t) const override { return "letter"; }
  caf::type_erased_value_ptr copy(std::size_t) const override { return nullptr; }
  caf::error save(std::size_t, caf::serializer&) const override { return caf::sec::runtime_error; }
};

} // namespace

letter* letter::make(const message_type& type) {
  void* memory = ::operator new(offset() + type.size);
  return ::new (memory) letter(type);
}

caf::type_erased_tuple& letter::content() {
  static opaque view; // without state
  return view;
}

const caf::type_erased_tuple& letter::content() const { return const_cast<letter*>(this)->content(); }

caf::message letter::move_content_to_message() { return copy_content_to_message(); }

caf::message letter::copy_content_to_message() const {
  envelope out;
  out.type = type->id;
  out.process = static_cast<std::uint64_t>(mark.queued);
  out.cause = mark.id;
  out.request = type->request(payload());
  if (type->write) {
    wire_writer writer;
    type->write(writer, payload());
    out.bytes.assign(reinterpret_cast<const char*>(writer.bytes.data()), writer.bytes.size());
    for (const auto& actor : writer.actors) out.actors.push_back(strong(actor));
  }
  return caf::make_message(std::move(out));
}

} // namespace godwit::runtime::detail
