// Vectors of the width that the instruction set has, through the compiler's vector extensions; a compiler without them
// gets vectors of one element, and the same source.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(HALFULP_ISA_avx512) && (defined(__GNUC__) || defined(__clang__))
#define HALFULP_MASKS 1  // lanes can be chosen by mask registers
#include <immintrin.h>
#endif

namespace halfulp::HALFULP_ISA_NAMESPACE {

#if defined(HALFULP_ISA_avx512)
inline constexpr int kVectorBytes = 64;
#elif defined(HALFULP_ISA_avx2)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <int Size>
struct IntOfSize;
template <> struct IntOfSize<1> { using type = std::int8_t; };
template <> struct IntOfSize<2> { using type = std::int16_t; };
template <> struct IntOfSize<4> { using type = std::int32_t; };
template <> struct IntOfSize<8> { using type = std::int64_t; };
// The integer as wide as T: lanes of a comparison, offsets that travel with a value.
template <class T>
using int_like = typename IntOfSize<sizeof(T)>::type;

#if defined(__GNUC__) || defined(__clang__)

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
inline Vector<T> load(const T* source) {
  Vector<T> v;
  std::memcpy(&v, source, sizeof v);
  return v;
}

template <class T>
inline void store(T* target, const Vector<T>& v) {
  std::memcpy(target, &v, sizeof v);
}

// The first `count` lanes, at least one and at most all; loaded lanes beyond are zero.
template <class T>
inline Vector<T> load_first(const T* source, std::int64_t count) {
#if defined(HALFULP_MASKS)
  const __mmask64 bytes = ~std::uint64_t{0} >> (64 - count * static_cast<std::int64_t>(sizeof(T)));
  return reinterpret_cast<Vector<T>>(_mm512_maskz_loadu_epi8(bytes, source));
#else
  Vector<T> v{};
  std::memcpy(&v, source, static_cast<std::size_t>(count) * sizeof(T));
  return v;
#endif
}
template <class T>
inline void store_first(T* target, const Vector<T>& v, std::int64_t count) {
#if defined(HALFULP_MASKS)
  const __mmask64 bytes = ~std::uint64_t{0} >> (64 - count * static_cast<std::int64_t>(sizeof(T)));
  _mm512_mask_storeu_epi8(target, bytes, reinterpret_cast<__m512i>(v));
#else
  std::memcpy(target, &v, static_cast<std::size_t>(count) * sizeof(T));
#endif
}

template <class T>
inline Vector<T> splat(T x) {
  return x - Vector<T>{};
}

// The larger and smaller of two lanes of unsigned integers: one instruction where the compiler would take two, one
// after the other.
template <class T>
inline Vector<T> larger_of(const Vector<T>& a, const Vector<T>& b) {
#if defined(HALFULP_MASKS)
  const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b);
  if constexpr (sizeof(T) == 4) return reinterpret_cast<Vector<T>>(_mm512_maskz_max_epu32(0xffff, x, y));
  if constexpr (sizeof(T) == 8) return reinterpret_cast<Vector<T>>(_mm512_maskz_max_epu64(0xff, x, y));
#endif
  return a > b ? a : b;
}
template <class T>
inline Vector<T> smaller_of(const Vector<T>& a, const Vector<T>& b) {
#if defined(HALFULP_MASKS)
  const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b);
  if constexpr (sizeof(T) == 4) return reinterpret_cast<Vector<T>>(_mm512_maskz_min_epu32(0xffff, x, y));
  if constexpr (sizeof(T) == 8) return reinterpret_cast<Vector<T>>(_mm512_maskz_min_epu64(0xff, x, y));
#endif
  return a < b ? a : b;
}

// Lanes from `index` on of rows of n items, some of which may lie outside. A row is given by the address of lane 0.
template <class T>
class Within {
 public:
#if defined(HALFULP_MASKS)
  Within(std::int64_t index, std::int64_t n) : inside_(bytes(n - index) & ~bytes(-index)) {}
  Vector<T> or_zero(const T* row) const { return reinterpret_cast<Vector<T>>(_mm512_maskz_loadu_epi8(inside_, row)); }
  Vector<T> or_else(const Vector<T>& zeroed, const Vector<T>& x) const {
    return reinterpret_cast<Vector<T>>(
        _mm512_mask_mov_epi8(reinterpret_cast<__m512i>(x), inside_, reinterpret_cast<__m512i>(zeroed)));
  }

 private:
  // A bit for each byte of the first `count` lanes.
  static __mmask64 bytes(std::int64_t count) {
    const std::int64_t n = count * static_cast<std::int64_t>(sizeof(T));
    return n >= 64 ? ~std::uint64_t{0} : n <= 0 ? 0 : (std::uint64_t{1} << n) - 1;
  }
  __mmask64 inside_;
#else
  Within(std::int64_t index, std::int64_t n)
      : begin_(index < 0 ? -index : 0), end_(n - index < kLanes<T> ? n - index : kLanes<T>) {}
  Vector<T> or_zero(const T* row) const {
    T lanes[kLanes<T>] = {};
    for (std::int64_t i = begin_; i < end_; ++i) lanes[i] = row[i];
    return load(lanes);
  }
  Vector<T> or_else(const Vector<T>& zeroed, const Vector<T>& x) const {
    T lanes[kLanes<T>], others[kLanes<T>];
    store(lanes, zeroed);
    store(others, x);
    for (std::int64_t i = 0; i < kLanes<T>; ++i) lanes[i] = i >= begin_ && i < end_ ? lanes[i] : others[i];
    return load(lanes);
  }

 private:
  std::int64_t begin_, end_;
#endif
};

template <class M, class V>
inline V select(const M& mask, const V& yes, const V& no) {
  return mask ? yes : no;
}

// Element i of the result is element Step * i + Start of the two vectors put together.
template <int Start, int Step, class V, int... I>
inline V shuffled(const V& a, const V& b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Step * I + Start)...);
}

template <class T>
inline Vector<T> even(const Vector<T>& a, const Vector<T>& b) {
  return shuffled<0, 2>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}
template <class T>
inline Vector<T> odd(const Vector<T>& a, const Vector<T>& b) {
  return shuffled<1, 2>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}

// Elements 1 and on of a, and the first of b.
template <class T>
inline Vector<T> shifted_by_one(const Vector<T>& a, const Vector<T>& b) {
  return shuffled<1, 1>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}

// Elements Start and on of vectors put together.
template <class T, int Start>
inline Vector<T> elements_from(const Vector<T>* v) {
  constexpr int vector = Start / kLanes<T>, lane = Start % kLanes<T>;
  if constexpr (lane == 0) return v[vector];
  else return shuffled<lane, 1>(v[vector], v[vector + 1], std::make_integer_sequence<int, kLanes<T>>{});
}

// The first and second half of a0 b0 a1 b1 ...
template <int Half, class V, int... I>
inline V zipped(const V& a, const V& b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (Half * n / 2 + I / 2 + (I % 2) * n)...);
}
template <class T>
inline Vector<T> zip_low(const Vector<T>& a, const Vector<T>& b) {
  return zipped<0>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}
template <class T>
inline Vector<T> zip_high(const Vector<T>& a, const Vector<T>& b) {
  return zipped<1>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}

template <class To, class V>
inline To reinterpret(const V& v) {
  static_assert(sizeof(To) == sizeof(V));
  To result;
  std::memcpy(&result, &v, sizeof v);
  return result;
}

#else

template <class T>
using Vector = T;
template <class T>
inline constexpr int kLanes = 1;
template <class T>
inline T load(const T* source) { return *source; }
template <class T>
inline void store(T* target, T v) { *target = v; }
template <class T>
inline T load_first(const T* source, std::int64_t) { return *source; }
template <class T>
inline void store_first(T* target, T v, std::int64_t) { *target = v; }
template <class T>
inline T splat(T x) { return x; }
template <class T, int Start>
inline T elements_from(const T* v) { return v[Start]; }
template <class V>
inline V select(bool mask, V yes, V no) { return mask ? yes : no; }
template <class T>
inline T larger_of(T a, T b) { return a > b ? a : b; }
template <class T>
inline T smaller_of(T a, T b) { return a < b ? a : b; }
template <class T>
class Within {
 public:
  Within(std::int64_t index, std::int64_t n) : inside_(index >= 0 && index < n) {}
  T or_zero(const T* row) const { return inside_ ? *row : T{}; }
  T or_else(T zeroed, T x) const { return inside_ ? zeroed : x; }

 private:
  bool inside_;
};
template <class To, class V>
inline To reinterpret(const V& v) {
  To result;
  std::memcpy(&result, &v, sizeof v);
  return result;
}

#endif

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
