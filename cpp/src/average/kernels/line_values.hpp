// Vectors of sums: a float64 each, or a pair for float64, perhaps with bounds on their errors. With what loads sources
// as float64, rounds and stores quotients, and takes magnitudes. Written once for vectors and for single values, which
// serve the ends of rows.
#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

#include "average/fast_kernels.hpp"
#include "exact/round.hpp"
#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"
#include "simd/with_signs.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

inline constexpr Index kCacheLine = 64;

// Asks for what lies that far on; it need not exist.
template <class T>
HALFULP_IN_LINE inline void prefetch_cell(const T* x, Index ahead) {
  prefetch_line(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(x) +
                                              static_cast<std::uintptr_t>(ahead) * sizeof(T)));
}

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
    return load_doubles(x);
}

// A cell times the sign of another one that is not NaN; +0 if that is 0.
template <class V>
inline V widened_with_sign(const float* sign, const float* cell) {
  if constexpr (std::is_same_v<V, double>)
    return *sign == 0.0f ? 0.0 : *sign < 0.0f ? -widened_one(*cell) : widened_one(*cell);
  else
    return load_with_signs(sign, cell);
}

template <class T>
inline void store_rounded(T* out, double q) {
  *out = round_to<T>(q);
}

inline double magnitude(double x) { return std::fabs(x); }
inline double upper_half(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~std::uint64_t{0} << 26);
}
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }

template <class V>
inline V all(double x) {
  if constexpr (std::is_same_v<V, double>)
    return x;
  else
    return splat(x);
}

// sum / n to within one unit in the last place, and exactly if the quotient is a double; see sum_divisor.
template <class V>
inline V quotient(const V& sum, const SumDivisor& d) {
  if (d.rest == 0.0) return sum * all<V>(d.high);
  if constexpr (kFuses) return fused(sum, all<V>(d.high), sum * all<V>(d.rest));
  else return sum / all<V>(d.value);
}

// What a line's sums get added: a padded zero among the terms makes a negative zero positive; -0.0 changes nothing.
inline double padded_zero(const SumLine& line) { return line.padded ? 0.0 : -0.0; }

template <class T>
Index divisor_of(const LineTask<T>& task, const SumLine& line, const SumRun& run) {
  return task.divisor != 0 ? task.divisor : line.divisor * run.divisor;
}

// Divisors change rarely, and take divisions to prepare.
template <class T>
const SumDivisor& prepared_divisor(const LineTask<T>& task, Index n) {
  PreparedDivisor& last = *task.last_divisor;
  if (n != last.n) last = {n, sum_divisor(n)};
  return last.divisor;
}

// f(row, cells) for what slabs [first, end) of a block hold, in one piece if they follow each other.
template <class T, class F>
inline void for_each_slab_row(const LineTask<T>& task, Index first, Index end, F f) {
  if (task.slab_row_count == 1 && task.slab_stride == task.slab_width)
    return f(task.source + first * task.slab_stride + task.slab_rows[0] + task.slab_column,
             (end - first) * task.slab_width);
  for (Index slab = first; slab < end; ++slab)
    for (Index r = 0; r < task.slab_row_count; ++r)
      f(task.source + slab * task.slab_stride + task.slab_rows[r] + task.slab_column, task.slab_width);
}

// A sum of T while it is made: in float64, or in two parts for float64. Bounded<T>: with an upper bound on its error.
template <class V>
struct Single {
  V sum;
};
template <class V>
struct Pair {
  V sum, low;
};
template <class V>
struct BoundedSingle {
  V sum, bound;
};
template <class V>
struct BoundedPair {
  V sum, low, bound;
};
template <class T>
struct Bounded;
template <class T, class V>
struct HeldOf {
  using type = Single<V>;
};
template <class V>
struct HeldOf<double, V> {
  using type = Pair<V>;
};
template <class T, class V>
struct HeldOf<Bounded<T>, V> {
  using type = std::conditional_t<std::is_same_v<T, double>, BoundedPair<V>, BoundedSingle<V>>;
};
template <class T, class V>
using Held = typename HeldOf<T, V>::type;
// One type for all whose sums are held alike: loops over sums alone are compiled once for them.
template <class T>
using HeldAs = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
inline constexpr bool kHasLow = std::is_same_v<T, double> || std::is_same_v<T, Bounded<double>>;
template <class T>
inline constexpr bool kHasBound = std::is_same_v<T, Bounded<float>> || std::is_same_v<T, Bounded<double>>;

template <class T, class V>
inline Held<T, V> held(const V& x) {
  Held<T, V> v{};
  v.sum = x;
  return v;
}

// a + b or a * b, and what that lost, exactly.
template <class V>
struct Rounded {
  V value, lost;
};
template <class V>
inline Rounded<V> added(const V& a, const V& b) {
  const V s = a + b;
  const V from_b = s - a;
  return {s, (a - (s - from_b)) + (b - from_b)};
}
template <class V>
inline Rounded<V> multiplied(const V& a, const V& b) {
  const V p = a * b;
  return {p, fused(a, b, -p)};
}

// What a sum cannot represent goes one part down: sum, low, bound.
template <class V>
inline Single<V> plus(const Single<V>& a, const Single<V>& b) {
  return {a.sum + b.sum};
}
template <class V>
inline Pair<V> plus(const Pair<V>& a, const Pair<V>& b) {
  const Rounded<V> s = added(a.sum, b.sum);
  return {s.value, (a.low + b.low) + s.lost};
}
template <class V>
inline BoundedSingle<V> plus(const BoundedSingle<V>& a, const BoundedSingle<V>& b) {
  const Rounded<V> s = added(a.sum, b.sum);
  return {s.value, (a.bound + b.bound) + magnitude(s.lost)};
}
template <class V>
inline BoundedPair<V> plus(const BoundedPair<V>& a, const BoundedPair<V>& b) {
  const Rounded<V> s = added(a.sum, b.sum), lows = added(a.low, b.low), low = added(lows.value, s.lost);
  return {s.value, low.value, (a.bound + b.bound) + (magnitude(lows.lost) + magnitude(low.lost))};
}
template <class V>
inline Single<V> plus(const Single<V>& a, const V& x) {
  return {a.sum + x};
}
template <class V>
inline Pair<V> plus(const Pair<V>& a, const V& x) {
  const Rounded<V> s = added(a.sum, x);
  return {s.value, a.low + s.lost};
}
template <class V>
inline BoundedSingle<V> plus(const BoundedSingle<V>& a, const V& x) {
  const Rounded<V> s = added(a.sum, x);
  return {s.value, a.bound + magnitude(s.lost)};
}
template <class V>
inline BoundedPair<V> plus(const BoundedPair<V>& a, const V& x) {
  const Rounded<V> s = added(a.sum, x), low = added(a.low, s.lost);
  return {s.value, low.value, a.bound + magnitude(low.lost)};
}

// Times an integer: a product's rounding error is a multiple of the last bit of a factor, so it is a double, exactly.
template <class V>
inline Single<V> times(const Single<V>& a, const V& weight) {
  return {a.sum * weight};
}
template <class V>
inline Pair<V> times(const Pair<V>& a, const V& weight) {
  const Rounded<V> s = multiplied(a.sum, weight);
  return {s.value, a.low * weight + s.lost};
}
template <class V>
inline BoundedSingle<V> times(const BoundedSingle<V>& a, const V& weight) {
  const Rounded<V> s = multiplied(a.sum, weight);
  return {s.value, a.bound * magnitude(weight) + magnitude(s.lost)};
}
template <class V>
inline BoundedPair<V> times(const BoundedPair<V>& a, const V& weight) {
  const Rounded<V> s = multiplied(a.sum, weight), low = multiplied(a.low, weight), rest = added(low.value, s.lost);
  return {s.value, rest.value, a.bound * magnitude(weight) + (magnitude(low.lost) + magnitude(rest.lost))};
}

template <class T, class V>
inline Held<T, V> get(const Sums& sums, Index i) {
  const auto part = [&](const double* x) {
    if constexpr (std::is_same_v<V, double>)
      return x[i];
    else
      return load(x + i);
  };
  Held<T, V> v;
  v.sum = part(sums.sum);
  if constexpr (kHasLow<T>) v.low = part(sums.low);
  if constexpr (kHasBound<T>) v.bound = part(sums.bound);
  return v;
}

template <class V>
inline void put_part(double* x, const V& v) {
  std::memcpy(x, &v, sizeof v);
}
template <class H>
inline void put(const Sums& sums, Index i, const H& v) {
  put_part(sums.sum + i, v.sum);
  if constexpr (requires { v.low; }) put_part(sums.low + i, v.low);
  if constexpr (requires { v.bound; }) put_part(sums.bound + i, v.bound);
}

// The magnitudes of what has passed, lane by lane. Upper bits only, where these are quicker: then `smallest` holds the
// largest differences of the sign bit and magnitudes, among which that of zero is the least.
template <class T>
struct MagnitudeLanes {
  using Bits = typename format_of<T>::bits_type;
  using Lanes = Vector<Bits>;
  static constexpr Index kWidth = kLanes<Bits>;
  static constexpr bool kUpper = kUpperBits<Bits>;
  static constexpr Bits kSign = format_of<T>::sign, kMask = static_cast<Bits>(~kSign), kNone = kUpper ? kSign : kMask;

  HALFULP_IN_LINE void take(const Lanes& lanes) {
    const Lanes found = lanes & splat(kMask);
    if constexpr (kUpper) {
      keep(splat(kSign) - found, found);
    } else {
      Lanes less = found - splat(Bits{1});  // zero becomes a pattern of ones, the largest one, and so does not count
      if constexpr (!kAnyUnsigned<Bits>) less = less & splat(kMask);
      keep(less, found);
    }
  }
  HALFULP_IN_LINE void take(const T* x) { take(load(reinterpret_cast<const Bits*>(x))); }
  HALFULP_IN_LINE void join(const MagnitudeLanes& others) { keep(others.smallest, others.largest); }

  MagnitudeRange range() const {
    Bits least[kWidth], most[kWidth];
    std::memcpy(least, &smallest, sizeof least);
    std::memcpy(most, &largest, sizeof most);
    Bits low = kNone, high = 0;
    if constexpr (kUpper) {
      // Bounds on what the upper bits are of.
      constexpr int shift = 8 * static_cast<int>(sizeof(Bits)) - 16;
      constexpr Bits rest = (Bits{1} << shift) - 1;
      std::int16_t difference = INT16_MIN;
      for (Index i = 0; i < kWidth; ++i) {
        const auto found = static_cast<std::int16_t>(least[i] >> shift);
        difference = found > difference ? found : difference;
        high = most[i] > high ? most[i] : high;
      }
      if (difference == INT16_MIN) return {};
      return {kSign - (static_cast<Bits>(difference) << shift) - rest - 1, high | rest};
    } else {
      for (const Bits bits : least) low = bits < low ? bits : low;
      for (const Bits bits : most) high = bits > high ? bits : high;
      return {low == kNone ? ~std::uint64_t{0} : std::uint64_t{low}, high};
    }
  }

  Lanes smallest = splat(kNone), largest = splat(Bits{0});

 private:
  HALFULP_IN_LINE void keep(const Lanes& least, const Lanes& most) {
    smallest = kUpper ? larger_upper_bits(least, smallest) : smaller(least, smallest);
    largest = kUpper ? larger_upper_bits(most, largest) : larger(most, largest);
  }
};

// The magnitudes of all that was read, as MagnitudeRange has them.
template <class T>
class MagnitudeScan {
 public:
  using Lanes = MagnitudeLanes<T>;
  using Bits = typename Lanes::Bits;

  HALFULP_NOINLINE void take(const T* x, Index n) {
    const auto* bits = reinterpret_cast<const Bits*>(x);
    Lanes lanes = lanes_, others;  // of every other vector, so that one need not wait for the one before
    Index i = 0;
    for (; i + 2 * Lanes::kWidth <= n; i += 2 * Lanes::kWidth) {
      for (Index at = 0; at < 2 * Lanes::kWidth; at += static_cast<Index>(64 / sizeof(T))) prefetch_ahead(x + i + at);
      lanes.take(x + i);
      others.take(x + i + Lanes::kWidth);
    }
    if (i + Lanes::kWidth <= n) {
      others.take(x + i);
      i += Lanes::kWidth;
    }
    lanes.join(others);
    if (i < n) lanes.take(load_first(bits + i, n - i));
    lanes_ = lanes;
  }

  // For loops that take lanes on the way.
  Lanes lanes() const { return lanes_; }
  void set_lanes(const Lanes& lanes) { lanes_ = lanes; }

  MagnitudeRange range() const { return lanes_.range(); }

 private:
  Lanes lanes_;
};

// Whether a negative zero has passed.
template <class T>
class NegativeZeroScan {
 public:
  HALFULP_NOINLINE void take(const T* x, Index n) {
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
