#include "xla/call.hpp"

#include <stdexcept>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "calls_in_flight.hpp"
#include "halfulp/error.hpp"
#include "halfulp/float_environment.hpp"

namespace halfulp::xla {
namespace {

DType dtype_from(std::int32_t element_type) {
  switch (static_cast<ElementType>(element_type)) {
    case ElementType::boolean: return DType::boolean;
    case ElementType::i8: return DType::i8;
    case ElementType::i16: return DType::i16;
    case ElementType::i32: return DType::i32;
    case ElementType::i64: return DType::i64;
    case ElementType::u8: return DType::u8;
    case ElementType::u16: return DType::u16;
    case ElementType::u32: return DType::u32;
    case ElementType::u64: return DType::u64;
    case ElementType::f16: return DType::f16;
    case ElementType::f32: return DType::f32;
    case ElementType::f64: return DType::f64;
    case ElementType::bf16: return DType::bf16;
  }
  throw std::runtime_error("halfulp: an element type that no operator takes");
}

Error* error(const CallFrame& frame, const char* message, std::int32_t code) noexcept {
  ErrorRequest request{sizeof(ErrorRequest), nullptr, message, code};
  // The field before the padding ends the struct, as XLA counts sizes.
  request.struct_size = offsetof(ErrorRequest, code) + sizeof(request.code);
  return frame.api->create_error(&request);
}

// The registration asks every handler for the version of the interface that it was built for. Ours is built for the
// layouts in ffi.hpp, which it checks on every call, so it goes along with any version of major number 0.
bool answered_metadata(CallFrame& frame) noexcept {
  for (ExtensionHeader* header = frame.extensions; header != nullptr; header = header->next) {
    if (header->type != kMetadataExtension) continue;
    Metadata& metadata = *reinterpret_cast<MetadataExtension*>(header)->metadata;
    metadata.version.major = 0;
    // Versions of XLA up to 0.1 of the interface ask without giving theirs.
    metadata.version.minor = frame.api == nullptr ? 1 : frame.api->version.minor;
    metadata.traits = 0;
    return true;
  }
  return false;
}

}  // namespace

const void* Call::find(std::string_view name, std::int32_t kind) const {
  const Attributes& attributes = frame_.attributes;
  for (std::int64_t i = 0; i < attributes.count; ++i) {
    const Text& found = *attributes.names[i];
    if (std::string_view(found.data, found.size) == name && attributes.kinds[i] == kind) return attributes.items[i];
  }
  throw std::runtime_error("halfulp: the call has no attribute " + std::string(name));
}

std::string_view Call::text(std::string_view name) const {
  const Text& text = *static_cast<const Text*>(find(name, kTextAttribute));
  return {text.data, text.size};
}

std::vector<Index> Call::numbers(std::string_view name) const {
  const Numbers& numbers = *static_cast<const Numbers*>(find(name, kNumbersAttribute));
  if (numbers.element_type != static_cast<std::int32_t>(ElementType::i64))
    throw std::runtime_error("halfulp: the attribute " + std::string(name) + " is not of 64-bit integers");
  const Index* first = static_cast<const Index*>(numbers.data);
  return {first, first + numbers.size};
}

ArrayView view_of(const Buffer& buffer) {
  if (buffer.rank > kMaxRank) throw std::runtime_error("halfulp: an array with too many axes");
  ArrayView view;
  view.data = static_cast<char*>(buffer.data);
  view.dtype = dtype_from(buffer.element_type);
  const int rank = static_cast<int>(buffer.rank);
  view.shape.resize(rank);
  view.strides.resize(rank);
  Index stride = static_cast<Index>(item_size(view.dtype));
  for (int i = rank - 1; i >= 0; --i) {
    view.shape[i] = buffer.sizes[i];
    view.strides[i] = stride;
    stride *= buffer.sizes[i] > 0 ? buffer.sizes[i] : 1;
  }
  return view;
}

void use_large_pages(void* data, std::size_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::size_t least = std::size_t{4} << 20;
  constexpr std::uintptr_t page = 4096;
  if (bytes < least) return;
  const std::uintptr_t start = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t stop = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  madvise(reinterpret_cast<void*>(start), stop - start, MADV_HUGEPAGE);  // a hint: a refusal changes nothing
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
#endif
}

Error* guarded(CallFrame* frame, void (*work)(const Call&)) noexcept {
  if (answered_metadata(*frame)) return nullptr;
  if (frame->stage != kExecuteStage) return nullptr;
  if (!well_formed(*frame))
    return error(*frame, "halfulp: this version of XLA calls foreign functions in a way that halfulp does not know",
                 kInternal);
  const bindings::CallInFlight in_flight;
  if (!in_flight.admitted()) return error(*frame, "halfulp: Python has ended", kInternal);
  const DefaultFloatEnvironment environment;  // XLA flushes subnormal numbers to zero
  try {
    const Call call(*frame);
    for (int i = 0; i < call.result_count(); ++i) {
      const ArrayView view = view_of(call.result(i));
      use_large_pages(view.data, static_cast<std::size_t>(view.count()) * item_size(view.dtype));
    }
    work(call);
    return nullptr;
  } catch (const halfulp::Error& problem) {
    return error(*frame, problem.what(), kInvalidArgument);
  } catch (const std::exception& problem) {
    return error(*frame, problem.what(), kInternal);
  }
}

}  // namespace halfulp::xla
