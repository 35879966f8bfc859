// The element types, their storage, and the conversions of the two half-precision formats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

namespace halfulp {

enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

inline constexpr int kDTypeCount = 13;

// IEEE binary16 and bfloat16 as storage; arithmetic happens in float or double.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
// A truth value as NumPy stores it: one byte, 0 or 1.
struct Bool {
  std::uint8_t value;
};

template <class T>
struct DTypeOf;
template <> struct DTypeOf<Float16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct DTypeOf<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<std::uint64_t> { static constexpr DType value = DType::u64; };
template <> struct DTypeOf<Bool> { static constexpr DType value = DType::boolean; };

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

constexpr std::size_t item_size(DType dtype) noexcept {
  constexpr std::uint8_t sizes[kDTypeCount] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return sizes[static_cast<int>(dtype)];
}

constexpr bool is_float(DType dtype) noexcept { return dtype <= DType::f64; }

constexpr const char* name_of(DType dtype) noexcept {
  constexpr const char* names[kDTypeCount] = {"float16", "bfloat16", "float32", "float64", "int8",   "int16", "int32",
                                              "int64",   "uint8",    "uint16",  "uint32",  "uint64", "bool"};
  return names[static_cast<int>(dtype)];
}

// Calls f(T{}) with the storage type of a floating-point dtype.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f(Float16{});
    case DType::bf16: return f(BFloat16{});
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default: throw std::logic_error("halfulp: not a floating-point type");
  }
}

// Calls f(T{}) with the storage type of any dtype.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i8: return f(std::int8_t{});
    case DType::i16: return f(std::int16_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::i64: return f(std::int64_t{});
    case DType::u8: return f(std::uint8_t{});
    case DType::u16: return f(std::uint16_t{});
    case DType::u32: return f(std::uint32_t{});
    case DType::u64: return f(std::uint64_t{});
    case DType::boolean: return f(Bool{});
    default: return visit_float(dtype, static_cast<F&&>(f));
  }
}

constexpr float to_float(BFloat16 x) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

constexpr float to_float(Float16 x) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x0400u) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  // Zero or subnormal: rest * 2^-24, exact in float.
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f));
}

constexpr float to_float(float x) noexcept { return x; }

// To nearest, ties to even; overflow to infinity; gradual underflow.
constexpr BFloat16 to_bfloat16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

constexpr Float16 to_float16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds to 2^16 or above
  if (magnitude < 0x38800000u) {
    // Below the smallest normal: adding 0.5 aligns the last bit of the float with 2^-24, and the addition rounds.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

}  // namespace halfulp
