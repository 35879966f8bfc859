// The part of XLA's foreign function interface (its stable C interface, version 0.x) that a CPU handler needs, declared
// here so that neither jax nor XLA is needed to build. Every struct of that interface starts with its own size, so a
// handler can tell at run time whether the caller's layout is the one below; `well_formed` does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace halfulp::xla {

struct Error;  // opaque, made by the interface's own function

struct ExtensionHeader {
  std::size_t struct_size;
  std::int32_t type;
  ExtensionHeader* next;
};

inline constexpr std::int32_t kMetadataExtension = 1;

struct Version {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  std::int32_t major;
  std::int32_t minor;
};

struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  ExtensionHeader header;
  Metadata* metadata;
};

struct ErrorRequest {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  const char* message;
  std::int32_t code;
};

inline constexpr std::int32_t kInvalidArgument = 3;
inline constexpr std::int32_t kInternal = 13;

struct Interface {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorRequest*);
  // more functions follow; none of them is used
};

struct Buffer {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  std::int32_t element_type;
  void* data;
  std::int64_t rank;
  std::int64_t* sizes;
};

// Arguments and results have the same layout.
struct Buffers {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  std::int64_t count;
  std::int32_t* kinds;  // 1: a Buffer
  void** items;
};

struct Text {
  const char* data;
  std::size_t size;
};

struct Numbers {
  std::int32_t element_type;
  std::size_t size;
  void* data;
};

struct Attributes {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  std::int64_t count;
  std::int32_t* kinds;  // 1: Numbers, 4: Text
  Text** names;         // sorted
  void** items;
};

inline constexpr std::int32_t kNumbersAttribute = 1;
inline constexpr std::int32_t kTextAttribute = 4;

enum class ElementType : std::int32_t {
  boolean = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u8 = 6, u16 = 7, u32 = 8, u64 = 9,
  f16 = 10, f32 = 11, f64 = 12, bf16 = 16
};

inline constexpr std::int32_t kExecuteStage = 3;

struct CallFrame {
  std::size_t struct_size;
  ExtensionHeader* extensions;
  const Interface* api;
  void* context;
  std::int32_t stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
  // a field for asynchronous results follows; it is not used
};

using Handler = Error* (*)(CallFrame*);

// Whether the caller's structs are those above. A struct may only have grown at its end where nothing follows it.
inline bool well_formed(const CallFrame& frame) noexcept {
  if (frame.struct_size < offsetof(CallFrame, attributes) + sizeof(Attributes)) return false;
  if (frame.arguments.struct_size != sizeof(Buffers) || frame.results.struct_size != sizeof(Buffers)) return false;
  if (frame.attributes.struct_size < sizeof(Attributes)) return false;
  for (const Buffers* buffers : {&frame.arguments, &frame.results})
    for (std::int64_t i = 0; i < buffers->count; ++i)
      if (buffers->kinds[i] != 1 || static_cast<const Buffer*>(buffers->items[i])->struct_size < sizeof(Buffer))
        return false;
  return true;
}

}  // namespace halfulp::xla
