// Vectors of sums: a float64 each, or a pair for float64, with what loads sources as float64, rounds and stores
// quotients, and takes magnitudes. Written once for vectors and for single values, which serve the ends of rows.
#pragma once

#include <cmath>
#include <type_traits>

#include "average/line_kernels.hpp"
#include "exact/round.hpp"
#include "simd/deinterleave.hpp"
#include "simd/vector.hpp"

#if defined(__FMA__) || defined(__SSE2__)
#include <immintrin.h>
#endif

// Loops have what they need in registers as long as none of it has an address.
#if defined(__GNUC__) || defined(__clang__)
#define HALFULP_IN_LINE __attribute__((always_inline))
#define HALFULP_APART __attribute__((noinline))  // from loops that need the registers
#else
#define HALFULP_IN_LINE
#define HALFULP_APART
#endif

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using Doubles = Vector<double>;
inline constexpr Index kWide = kLanes<double>;

template <class V>
struct Tag {
  using type = V;
};

// f(tag, i) for vectors of sums at i, and for single ones at the end.
template <class F>
inline void for_each_vector(Index n, F f) {
  Index i = 0;
  for (; i + kWide <= n; i += kWide) f(Tag<Doubles>{}, i);
  for (; i < n; ++i) f(Tag<double>{}, i);
}

#if defined(__GNUC__) || defined(__clang__)
typedef float Floats __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint16_t Shorts __attribute__((vector_size(kVectorBytes / 4)));

// Written out where compilers convert in two halves.
inline Doubles to_doubles(const Floats& v) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Doubles>(_mm512_maskz_cvtps_pd(0xff, reinterpret<__m256>(v)));
#else
  return __builtin_convertvector(v, Doubles);
#endif
}

inline Doubles widened_vector(const double* x) { return load(x); }
inline Doubles widened_vector(const float* x) {
  Floats v;
  std::memcpy(&v, x, sizeof v);
  return to_doubles(v);
}
inline Doubles widened_vector(const BFloat16* x) {
#if defined(HALFULP_ISA_avx512)
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  return to_doubles(reinterpret<Floats>(_mm256_slli_epi32(words, 16)));
#elif defined(HALFULP_ISA_avx2)
  const __m128i words = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)));
  return to_doubles(reinterpret<Floats>(_mm_slli_epi32(words, 16)));
#else
  Shorts v;
  std::memcpy(&v, x, sizeof v);
  return to_doubles(reinterpret<Floats>(__builtin_convertvector(v, Words) << 16));
#endif
}
inline Doubles widened_vector(const Float16* x) {
#if defined(HALFULP_ISA_avx512)
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return to_doubles(reinterpret<Floats>(_mm256_cvtph_ps(v)));
#elif defined(HALFULP_ISA_avx2)
  const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return to_doubles(reinterpret<Floats>(_mm_cvtph_ps(v)));
#else
  Doubles v;
  for (Index i = 0; i < kWide; ++i) v[i] = static_cast<double>(to_float(x[i]));
  return v;
#endif
}

// To 24 bits so that rounding these gives what rounding all would: the last one tells whether anything was dropped.
inline Floats sticky_floats(const Doubles& q) {
  using Bits = Vector<std::uint64_t>;
  constexpr std::uint64_t last = std::uint64_t{1} << 29;
  const Bits bits = reinterpret<Bits>(q);
  const Bits rest = bits & splat(last - 1);
  const Bits kept = (bits ^ rest) | select(rest != splat(std::uint64_t{0}), splat(last), splat(std::uint64_t{0}));
  return __builtin_convertvector(reinterpret<Doubles>(kept), Floats);
}

inline void store_rounded(float* out, const Doubles& q) {
  const Floats v = __builtin_convertvector(q, Floats);
  std::memcpy(out, &v, sizeof v);
}
inline void store_rounded(BFloat16* out, const Doubles& q) {
  const Words bits = reinterpret<Words>(sticky_floats(q));
  const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
#if defined(HALFULP_ISA_avx512)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtepi32_epi16(reinterpret<__m256i>(rounded)));
#elif defined(HALFULP_ISA_avx2)
  const __m128i v = reinterpret<__m128i>(rounded);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_packus_epi32(v, v));
#else
  const Shorts v = __builtin_convertvector(rounded, Shorts);
  std::memcpy(out, &v, sizeof v);
#endif
}
inline void store_rounded(Float16* out, const Doubles& q) {
#if defined(HALFULP_ISA_avx512)
  const __m128i v =
      _mm256_cvtps_ph(reinterpret<__m256>(sticky_floats(q)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), v);
#elif defined(HALFULP_ISA_avx2)
  const __m128i v = _mm_cvtps_ph(reinterpret<__m128>(sticky_floats(q)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), v);
#else
  for (Index i = 0; i < kWide; ++i) out[i] = round_to<Float16>(q[i]);
#endif
}
#endif

inline double widened_one(double x) { return x; }
template <class T>
inline double widened_one(T x) {
  return static_cast<double>(to_float(x));
}

template <class V, class T>
inline V widened(const T* x) {
  if constexpr (std::is_same_v<V, double>)
    return widened_one(*x);
  else
    return widened_vector(x);
}

template <class T>
inline void store_rounded(T* out, double q) {
  *out = round_to<T>(q);
}

// The first `left` of them, if that is less than all.
template <class T>
HALFULP_IN_LINE inline void store_first_rounded(T* out, const Doubles& q, Index left) {
#if defined(HALFULP_MASKS)
  if constexpr (std::is_same_v<T, float>) {  // a branch would keep what the loop needs out of the registers
    const auto mask = static_cast<__mmask8>(left >= kWide ? 0xff : (1 << left) - 1);
    return _mm256_mask_storeu_ps(out, mask, reinterpret<__m256>(__builtin_convertvector(q, Floats)));
  }
#endif
  if (left >= kWide) return store_rounded(out, q);
  T rounded[kWide];
  store_rounded(rounded, q);
  for (Index i = 0; i < left; ++i) out[i] = rounded[i];
}

template <class V>
inline V magnitude(const V& x) {
  if constexpr (std::is_same_v<V, double>) {
    return std::fabs(x);
  } else {
    using Bits = Vector<std::uint64_t>;
    return reinterpret<V>(reinterpret<Bits>(x) & splat(~Binary64::sign));
  }
}

// a b + c, rounded once.
template <class V>
inline V fused(const V& a, const V& b, const V& c) {
  if constexpr (std::is_same_v<V, double>) {
    return std::fma(a, b, c);
  } else {
#if defined(HALFULP_ISA_avx512)
    return reinterpret<V>(_mm512_fmadd_pd(reinterpret<__m512d>(a), reinterpret<__m512d>(b), reinterpret<__m512d>(c)));
#elif defined(HALFULP_ISA_avx2)
    return reinterpret<V>(_mm256_fmadd_pd(reinterpret<__m256d>(a), reinterpret<__m256d>(b), reinterpret<__m256d>(c)));
#else
    V v = c;
    for (Index i = 0; i < kWide; ++i) v[i] = std::fma(a[i], b[i], c[i]);
    return v;
#endif
  }
}

template <class V>
inline V all(double x) {
  if constexpr (std::is_same_v<V, double>)
    return x;
  else
    return splat(x);
}

// sum / n to within one unit in the last place, and exactly if the quotient is a double; see sum_divisor.
template <class V>
inline V uneven_quotient(const V& sum, const SumDivisor& d) {
#ifdef __FMA__
  return fused<V>(sum, all<V>(d.high), sum * all<V>(d.rest));
#else
  return sum / all<V>(d.value);
#endif
}
template <class V>
inline V quotient(const V& sum, const SumDivisor& d) {
  return d.rest == 0.0 ? sum * all<V>(d.high) : uneven_quotient(sum, d);
}

// A sum of T while it is made.
template <class V>
struct Single {
  V sum;
};
template <class V>
struct Pair {
  V sum, low;
};
template <class T, class V>
using Held = std::conditional_t<std::is_same_v<T, double>, Pair<V>, Single<V>>;

template <class T, class V>
inline Held<T, V> held(const V& x) {
  if constexpr (std::is_same_v<T, double>)
    return {x, all<V>(0.0)};
  else
    return {x};
}

template <class V>
inline Single<V> plus(const Single<V>& a, const Single<V>& b) {
  return {a.sum + b.sum};
}
// What `sum` loses is caught exactly and added to `low`.
template <class V>
inline Pair<V> plus(const Pair<V>& a, const Pair<V>& b) {
  const V s = a.sum + b.sum;
  const V from_b = s - a.sum;
  const V lost = (a.sum - (s - from_b)) + (b.sum - from_b);
  return {s, (a.low + b.low) + lost};
}
template <class V>
inline Single<V> plus(const Single<V>& a, const V& x) {
  return {a.sum + x};
}
template <class V>
inline Pair<V> plus(const Pair<V>& a, const V& x) {
  const V s = a.sum + x;
  const V from_x = s - a.sum;
  return {s, a.low + ((a.sum - (s - from_x)) + (x - from_x))};
}

// The sum of the first two.
template <class T, class V>
inline Held<T, V> both(const V& a, const V& b) {
  const V s = a + b;
  if constexpr (std::is_same_v<T, double>) {
    const V from_b = s - a;
    return {s, (a - (s - from_b)) + (b - from_b)};
  } else {
    return {s};
  }
}

template <class T, class V>
inline Held<T, V> get(const Sums& sums, Index i) {
  const auto part = [&](const double* x) {
    if constexpr (std::is_same_v<V, double>)
      return x[i];
    else
      return load(x + i);
  };
  if constexpr (std::is_same_v<T, double>)
    return {part(sums.sum), part(sums.low)};
  else
    return {part(sums.sum)};
}

template <class V>
inline void put_part(double* x, const V& v) {
  std::memcpy(x, &v, sizeof v);
}
template <class V>
inline void put(const Sums& sums, Index i, const Single<V>& v) {
  put_part(sums.sum + i, v.sum);
}
template <class V>
inline void put(const Sums& sums, Index i, const Pair<V>& v) {
  put_part(sums.sum + i, v.sum);
  put_part(sums.low + i, v.low);
}

// The smaller and the larger of magnitudes: unsigned numbers, below half their range where kAnyUnsigned is false.
// Compilers do not find these instructions in a choice.
#if defined(HALFULP_ISA_avx512)
template <class Bits>
inline constexpr bool kAnyUnsigned = true;
#elif defined(HALFULP_ISA_avx2)
template <class Bits>
inline constexpr bool kAnyUnsigned = sizeof(Bits) <= 4;
#else
template <class Bits>
inline constexpr bool kAnyUnsigned = false;
#endif
template <class V>
using SignedLanes = Vector<int_like<std::remove_cvref_t<decltype(std::declval<V>()[0])>>>;

template <class V>
inline V smaller(const V& a, const V& b) {
#if defined(HALFULP_ISA_avx512)
  const __m512i x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm512_min_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm512_maskz_min_epu32(0xffff, x, y));
  else return reinterpret<V>(_mm512_maskz_min_epu64(0xff, x, y));
#else
#if defined(HALFULP_ISA_avx2)
  const __m256i x = reinterpret<__m256i>(a), y = reinterpret<__m256i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm256_min_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm256_min_epu32(x, y));
  else
#elif defined(__SSE2__)
  const __m128i x = reinterpret<__m128i>(a), y = reinterpret<__m128i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm_min_epi16(x, y));
  else
#endif
    return select(reinterpret<SignedLanes<V>>(a) < reinterpret<SignedLanes<V>>(b), a, b);
#endif
}
template <class V>
inline V larger(const V& a, const V& b) {
#if defined(HALFULP_ISA_avx512)
  const __m512i x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm512_max_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm512_maskz_max_epu32(0xffff, x, y));
  else return reinterpret<V>(_mm512_maskz_max_epu64(0xff, x, y));
#else
#if defined(HALFULP_ISA_avx2)
  const __m256i x = reinterpret<__m256i>(a), y = reinterpret<__m256i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm256_max_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm256_max_epu32(x, y));
  else
#elif defined(__SSE2__)
  const __m128i x = reinterpret<__m128i>(a), y = reinterpret<__m128i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm_max_epi16(x, y));
  else
#endif
    return select(reinterpret<SignedLanes<V>>(a) > reinterpret<SignedLanes<V>>(b), a, b);
#endif
}

// Asks for what lies further on: two pages for the second cache, of which many requests may wait, half a page for the
// first.
inline void prefetch([[maybe_unused]] const void* x) {
#if defined(__GNUC__) || defined(__clang__)
  const auto at = reinterpret_cast<std::uintptr_t>(x);
  __builtin_prefetch(reinterpret_cast<const void*>(at + 8192), 0, 2);
  __builtin_prefetch(reinterpret_cast<const void*>(at + 2048), 0, 3);
#endif
}

// The magnitudes of what has passed, lane by lane.
template <class T>
struct MagnitudeLanes {
  using Bits = typename format_of<T>::bits_type;
  using Lanes = Vector<Bits>;
  static constexpr Index kWidth = kLanes<Bits>;
  static constexpr Bits kMask = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1), kNone = kMask;

  HALFULP_IN_LINE void take(const Lanes& lanes) {
    const Lanes found = lanes & splat(kMask);
    Lanes less = found - splat(Bits{1});  // zero becomes a pattern of ones, the largest one, and so does not count
    if constexpr (!kAnyUnsigned<Bits>) less = less & splat(kMask);
    smallest = smaller(less, smallest);
    largest = larger(found, largest);
  }
  HALFULP_IN_LINE void take(const T* x) { take(load(reinterpret_cast<const Bits*>(x))); }
  HALFULP_IN_LINE void join(const MagnitudeLanes& others) {
    smallest = smaller(others.smallest, smallest);
    largest = larger(others.largest, largest);
  }

  Lanes smallest = splat(kNone), largest = splat(Bits{0});
};

// The magnitudes of all that was read, as MagnitudeRange has them.
template <class T>
class MagnitudeScan {
 public:
  using Lanes = MagnitudeLanes<T>;
  using Bits = typename Lanes::Bits;

  // Ahead: asks for what follows.
  template <bool Ahead = true>
  HALFULP_APART void take(const T* x, Index n) {
    const auto* bits = reinterpret_cast<const Bits*>(x);
    Lanes lanes = lanes_, others;  // of every other vector, so that one need not wait for the one before
    Index i = 0;
    const auto take = [&](Lanes& to, Index at) HALFULP_IN_LINE {
      if constexpr (Ahead) prefetch(x + at);
      to.take(x + at);
    };
    for (; i + 2 * Lanes::kWidth <= n; i += 2 * Lanes::kWidth) {
      take(lanes, i);
      take(others, i + Lanes::kWidth);
    }
    if (i + Lanes::kWidth <= n) {
      take(others, i);
      i += Lanes::kWidth;
    }
    lanes.join(others);
    if (i < n) lanes.take(load_first(bits + i, n - i));
    lanes_ = lanes;
  }

  // For loops that take lanes on the way.
  Lanes lanes() const { return lanes_; }
  void set_lanes(const Lanes& lanes) { lanes_ = lanes; }

  MagnitudeRange range() const {
    Bits least[Lanes::kWidth], most[Lanes::kWidth], smallest = Lanes::kNone, largest = 0;
    std::memcpy(least, &lanes_.smallest, sizeof least);
    std::memcpy(most, &lanes_.largest, sizeof most);
    for (const Bits bits : least) smallest = bits < smallest ? bits : smallest;
    for (const Bits bits : most) largest = bits > largest ? bits : largest;
    return {smallest == Lanes::kNone ? ~std::uint64_t{0} : std::uint64_t{smallest}, largest};
  }

 private:
  Lanes lanes_;
};

// Whether a negative zero has passed.
template <class T>
class NegativeZeroScan {
 public:
  HALFULP_APART void take(const T* x, Index n) {
    const auto* bits = reinterpret_cast<const Bits*>(x);
    const Vector<Bits> sign = splat(Bits{format_of<T>::sign});
    Vector<Bits> none = none_;
    Index i = 0;
    const auto take = [&](const Vector<Bits>& x) {
      if constexpr (kAnyUnsigned<Bits>) none = smaller(none, Vector<Bits>(x ^ sign));
      else none = select(x == sign, splat(Bits{0}), none);
    };
    for (; i + kLanes<Bits> <= n; i += kLanes<Bits>) take(load(bits + i));
    if (i < n) take(load_first(bits + i, n - i));
    none_ = none;
  }
  bool found() const {
    Bits lanes[kLanes<Bits>];
    std::memcpy(lanes, &none_, sizeof lanes);
    bool found = false;
    for (const Bits lane : lanes) found = found || lane == 0;
    return found;
  }

 private:
  using Bits = typename format_of<T>::bits_type;
  Vector<Bits> none_ = splat(Bits{1});  // 0 where there was one
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
