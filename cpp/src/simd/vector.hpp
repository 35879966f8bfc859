// The vocabulary of vector kernels, for the instruction set that a kernel file is compiled for. A Vector<T> fills
// the widest registers; Vector<T, Bytes> narrower ones, for rows that are too short. Arithmetic and comparisons are the
// compiler's vector extensions; what they do badly is written per instruction set here and in the files beside.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "simd/compiler.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#define HALFULP_X86 1
#include <immintrin.h>
#elif defined(__aarch64__)
#define HALFULP_NEON 1
#include <arm_neon.h>
#endif
#if defined(HALFULP_ISA_avx512)
#define HALFULP_MASKS 1  // lanes can be chosen by mask registers
#endif
// Not by what the compiler says of itself: it may have been told to compile for this very processor.
#if defined(HALFULP_ISA_avx2) || defined(HALFULP_ISA_avx512)
#define HALFULP_AVX2 1
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
// The integer as wide as T: lanes of a comparison, an integer payload.
template <class T>
using int_like = typename IntOfSize<sizeof(T)>::type;

template <class T, int Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <class T, int Bytes = kVectorBytes>
using Vector = typename VectorOf<T, Bytes>::type;
template <class T, int Bytes = kVectorBytes>
inline constexpr int kLanes = Bytes / static_cast<int>(sizeof(T));
template <class V>
using lane_type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;

template <class To, class V>
inline To reinterpret(const V& v) {
  return __builtin_bit_cast(To, v);  // a copy through memory would keep vectors there
}

template <class T, int Bytes = kVectorBytes>
inline Vector<T, Bytes> load(const T* source) {
  Vector<T, Bytes> v;
  std::memcpy(&v, source, sizeof v);
  return v;
}

template <class T, class V>
inline void store(T* target, const V& v) {
  static_assert(sizeof(T) == sizeof(v[0]));
  std::memcpy(target, &v, sizeof v);
}

template <class T, int Bytes = kVectorBytes>
inline Vector<T, Bytes> splat(T x) {
  return x - Vector<T, Bytes>{};
}

template <class M, class V>
inline V select(const M& mask, const V& yes, const V& no) {
  return mask ? yes : no;
}

namespace pieces {  // of fewer bytes than a vector, by loads and stores that overlap

template <class W>
inline W word(const char* source) {
  W w;
  std::memcpy(&w, source, sizeof w);
  return w;
}

// The first n of eight bytes, n < 8.
inline std::uint64_t few(const char* source, std::int64_t n) {
  if (n >= 4) return word<std::uint32_t>(source) | std::uint64_t{word<std::uint32_t>(source + n - 4)} << (8 * n - 32);
  if (n >= 2) return word<std::uint16_t>(source) | std::uint64_t{word<std::uint16_t>(source + n - 2)} << (8 * n - 16);
  return n == 1 ? static_cast<unsigned char>(*source) : 0u;
}

// The first n of `Bytes` bytes, n at most Bytes; the others are zero.
template <int Bytes>
inline void load(char* target, const char* source, std::int64_t n) {
  if constexpr (Bytes == 8) {
    const std::uint64_t w = n >= 8 ? word<std::uint64_t>(source) : few(source, n);
    std::memcpy(target, &w, 8);
  } else {
    constexpr int half = Bytes / 2;
    if (n >= half) std::memcpy(target, source, half);
    else load<half>(target, source, n);
    if (n > half) load<half>(target + half, source + half, n - half);
    else std::memset(target + half, 0, half);
  }
}

// The first n of `Bytes` bytes, 0 < n < Bytes.
template <int Bytes>
inline void store(char* target, const char* source, std::size_t n) {
  const auto both_ends = [&](auto width) {
    std::memcpy(target, source, width());
    std::memcpy(target + (n - width()), source + (n - width()), width());
  };
  if constexpr (Bytes >= 64)
    if (n >= 32) return both_ends(std::integral_constant<std::size_t, 32>{});
  if constexpr (Bytes >= 32)
    if (n >= 16) return both_ends(std::integral_constant<std::size_t, 16>{});
  if (n >= 8) return both_ends(std::integral_constant<std::size_t, 8>{});
  if (n >= 4) return both_ends(std::integral_constant<std::size_t, 4>{});
  if (n >= 2) return both_ends(std::integral_constant<std::size_t, 2>{});
  *target = *source;
}

}  // namespace pieces

// Lane by lane, its own number.
template <class T, int Bytes, int... I>
inline Vector<T, Bytes> numbered(std::integer_sequence<int, I...>) {
  return Vector<T, Bytes>{static_cast<T>(I)...};
}
template <class T, int Bytes = kVectorBytes>
inline Vector<T, Bytes> lane_numbers() {
  return numbered<T, Bytes>(std::make_integer_sequence<int, kLanes<T, Bytes>>{});
}

// The first `count` lanes, at least one and at most all; loaded lanes beyond are zero.
template <class T, int Bytes = kVectorBytes>
inline Vector<T, Bytes> load_first(const T* source, std::int64_t count) {
  using V = Vector<T, Bytes>;
#if defined(HALFULP_MASKS)
  if constexpr (Bytes == 64) {
    const __mmask64 bytes = ~std::uint64_t{0} >> (64 - count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret<V>(_mm512_maskz_loadu_epi8(bytes, source));
  }
#elif defined(HALFULP_ISA_avx2)
  if constexpr (Bytes == 32 && sizeof(T) >= 4) {  // a masked load is quick everywhere, a masked store is not
    const auto mask =
        lane_numbers<int_like<T>, Bytes>() < splat<int_like<T>, Bytes>(static_cast<int_like<T>>(count));
    if constexpr (sizeof(T) == 4)
      return reinterpret<V>(_mm256_maskload_epi32(reinterpret_cast<const int*>(source), reinterpret<__m256i>(mask)));
    else
      return reinterpret<V>(
          _mm256_maskload_epi64(reinterpret_cast<const long long*>(source), reinterpret<__m256i>(mask)));
  }
#endif
  alignas(Bytes) char lanes[Bytes];
  pieces::load<Bytes>(lanes, reinterpret_cast<const char*>(source), count * static_cast<std::int64_t>(sizeof(T)));
  return reinterpret<V>(lanes);
}
template <class T, class V>
inline void store_first(T* target, const V& v, std::int64_t count) {
#if defined(HALFULP_MASKS)
  if constexpr (sizeof(V) == 64) {
    const __mmask64 bytes = ~std::uint64_t{0} >> (64 - count * static_cast<std::int64_t>(sizeof(T)));
    return _mm512_mask_storeu_epi8(target, bytes, reinterpret<__m512i>(v));
  }
#endif
  alignas(sizeof(V)) char lanes[sizeof(V)];
  std::memcpy(lanes, &v, sizeof v);
  const auto n = static_cast<std::size_t>(count) * sizeof(T);
  if (n == sizeof(V)) std::memcpy(target, lanes, sizeof v);
  else pieces::store<sizeof(V)>(reinterpret_cast<char*>(target), lanes, n);
}

// Lanes from `index` on of rows of n items, some of which may lie outside. A row is given by the address of lane 0.
template <class T>
class Within {
 public:
#if defined(HALFULP_MASKS)
  Within(std::int64_t index, std::int64_t n) : inside_(bytes(n - index) & ~bytes(-index)) {}
  Vector<T> or_zero(const T* row) const { return reinterpret<Vector<T>>(_mm512_maskz_loadu_epi8(inside_, row)); }
  Vector<T> or_else(const Vector<T>& zeroed, const Vector<T>& x) const {
    return reinterpret<Vector<T>>(
        _mm512_mask_mov_epi8(reinterpret<__m512i>(x), inside_, reinterpret<__m512i>(zeroed)));
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
      : begin_(index >= 0 ? 0 : -index < kLanes<T> ? -index : kLanes<T>),
        end_(n - index >= kLanes<T> ? kLanes<T> : n - index > begin_ ? n - index : begin_),
        inside_(lanes(begin_, end_)) {}
  Vector<T> or_zero(const T* row) const {
    if (end_ == begin_) return Vector<T>{};
    if (begin_ == 0) return end_ == kLanes<T> ? load(row) : load_first(row, end_);
    T two[2 * kLanes<T>] = {};
    store(two + begin_, load_first(row + begin_, end_ - begin_));
    return load(two);
  }
  Vector<T> or_else(const Vector<T>& zeroed, const Vector<T>& x) const { return select(inside_, zeroed, x); }

 private:
  using I = int_like<T>;
  static Vector<I> lanes(std::int64_t begin, std::int64_t end) {
    const auto number = lane_numbers<I>();
    return reinterpret<Vector<I>>((number >= splat(static_cast<I>(begin))) & (number < splat(static_cast<I>(end))));
  }
  std::int64_t begin_, end_;
  Vector<I> inside_;
#endif
};

// The larger of two lanes; the first of equal ones, and of zeros. Not for NaN.
template <class V>
inline V max_first(const V& first, const V& second) {
#if defined(HALFULP_X86)
  // The instruction returns its second operand if that is equal.
  using T = lane_type<V>;
  if constexpr (std::is_same_v<T, float> && sizeof(V) == 16)
    return reinterpret<V>(_mm_max_ps(reinterpret<__m128>(second), reinterpret<__m128>(first)));
  else if constexpr (std::is_same_v<T, double> && sizeof(V) == 16)
    return reinterpret<V>(_mm_max_pd(reinterpret<__m128d>(second), reinterpret<__m128d>(first)));
#if defined(HALFULP_AVX2)
  else if constexpr (std::is_same_v<T, float> && sizeof(V) == 32)
    return reinterpret<V>(_mm256_max_ps(reinterpret<__m256>(second), reinterpret<__m256>(first)));
  else if constexpr (std::is_same_v<T, double> && sizeof(V) == 32)
    return reinterpret<V>(_mm256_max_pd(reinterpret<__m256d>(second), reinterpret<__m256d>(first)));
#endif
#if !defined(HALFULP_AVX2)
  // Without SSE4.1 there are maxima of int16 and uint8 only; a saturating difference serves for uint16.
  else if constexpr (std::is_same_v<T, std::int16_t> && sizeof(V) == 16)
    return reinterpret<V>(_mm_max_epi16(reinterpret<__m128i>(first), reinterpret<__m128i>(second)));
  else if constexpr (std::is_same_v<T, std::uint8_t> && sizeof(V) == 16)
    return reinterpret<V>(_mm_max_epu8(reinterpret<__m128i>(first), reinterpret<__m128i>(second)));
  else if constexpr (std::is_same_v<T, std::uint16_t> && sizeof(V) == 16) {
    const auto b = reinterpret<__m128i>(second);
    return reinterpret<V>(_mm_add_epi16(_mm_subs_epu16(reinterpret<__m128i>(first), b), b));
  }
#endif
#endif
  return second > first ? second : first;
}

// The same with the last of equal ones.
template <class V>
inline V max_last(const V& first, const V& second) {
  return max_first(second, first);
}

// The larger and smaller of two lanes of unsigned integers: one instruction where the compiler would take two, one
// after the other.
template <class T>
inline Vector<T> larger_of(const Vector<T>& a, const Vector<T>& b) {
#if defined(HALFULP_MASKS)
  const auto x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(T) == 4) return reinterpret<Vector<T>>(_mm512_maskz_max_epu32(0xffff, x, y));
  if constexpr (sizeof(T) == 8) return reinterpret<Vector<T>>(_mm512_maskz_max_epu64(0xff, x, y));
#endif
  return a > b ? a : b;
}
template <class T>
inline Vector<T> smaller_of(const Vector<T>& a, const Vector<T>& b) {
#if defined(HALFULP_MASKS)
  const auto x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(T) == 4) return reinterpret<Vector<T>>(_mm512_maskz_min_epu32(0xffff, x, y));
  if constexpr (sizeof(T) == 8) return reinterpret<Vector<T>>(_mm512_maskz_min_epu64(0xff, x, y));
#endif
  return a < b ? a : b;
}

// The lanes of integers narrowed to bytes that hold them.
template <class V>
inline auto narrow_to_bytes(const V& v) {
  using Bytes = Vector<std::uint8_t, sizeof(V) / sizeof(v[0])>;
#if defined(HALFULP_ISA_avx2)  // the compiler would take vectors of eight bytes apart
  if constexpr (sizeof(V) == 32 && sizeof(v[0]) == 4) {
    const auto x = reinterpret<__m256i>(v), words = _mm256_packus_epi32(x, x), both = _mm256_packus_epi16(words, words);
    const __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    return reinterpret<Bytes>(_mm_cvtsi128_si64(bytes));
  }
#endif
  return __builtin_convertvector(v, Bytes);
}

// As many bytes as a vector has lanes, as these unsigned integers.
template <class U>
inline Vector<U> widen_bytes(const std::uint8_t* source) {
#if defined(HALFULP_MASKS)
  if constexpr (sizeof(U) == 4) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    return reinterpret<Vector<U>>(_mm512_maskz_cvtepu8_epi32(0xffff, bytes));
  }
  if constexpr (sizeof(U) == 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source));
    return reinterpret<Vector<U>>(_mm512_maskz_cvtepu8_epi64(0xff, bytes));
  }
#elif defined(HALFULP_ISA_avx2)
  if constexpr (sizeof(U) == 4)
    return reinterpret<Vector<U>>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(source))));
  if constexpr (sizeof(U) == 8) {
    int word;
    std::memcpy(&word, source, sizeof word);
    return reinterpret<Vector<U>>(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(word)));
  }
#elif defined(HALFULP_X86) && !defined(HALFULP_MASKS)
  if constexpr (sizeof(U) == 4) {
    int word;
    std::memcpy(&word, source, sizeof word);
    const __m128i zero = _mm_setzero_si128(), words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(word), zero);
    return reinterpret<Vector<U>>(_mm_unpacklo_epi16(words, zero));
  }
#endif
  return __builtin_convertvector((load<std::uint8_t, kLanes<U>>(source)), Vector<U>);
}

// Every lane in another type: to nearest in the rounding mode, to integers toward zero.
template <class To, class From>
HALFULP_ALWAYS_INLINE To converted(const From& v) {
  return __builtin_convertvector(v, To);
}

// Asks for memory that will be read soon; it need not exist.
inline void prefetch_line(const void* address) { __builtin_prefetch(address); }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
