// Exact sums and means of integers, most of them as plain loops that every compiler vectorises.
#include "average/integer_kernels.hpp"

#include <type_traits>

#include "simd/deinterleave.hpp"
#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T, class A>
void accumulate(const void* const* rows, int64_t count, void* sums, int64_t n) {
  A* __restrict out = static_cast<A*>(sums);
  int64_t r = 0;
  if (count >= 2) {
    const T* a = static_cast<const T*>(rows[0]);
    const T* b = static_cast<const T*>(rows[1]);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(static_cast<A>(a[i]) + static_cast<A>(b[i]));
    r = 2;
  } else {
    const T* a = static_cast<const T*>(rows[0]);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(a[i]);
    r = 1;
  }
  for (; r + 1 < count; r += 2) {
    const T* a = static_cast<const T*>(rows[r]);
    const T* b = static_cast<const T*>(rows[r + 1]);
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<A>(out[i] + static_cast<A>(static_cast<A>(a[i]) + static_cast<A>(b[i])));
  }
  if (r < count) {
    const T* a = static_cast<const T*>(rows[r]);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(out[i] + static_cast<A>(a[i]));
  }
}

// One sum per output that moves along: for windows that share most of their cells. Unsigned arithmetic wraps, and the
// result is right because it fits.
template <class A>
void slide(const A* sums, int64_t stride, int64_t count, int64_t inner, A* out, int64_t n) {
  using U = std::make_unsigned_t<A>;
  for (int64_t c = 0; c < inner; ++c) {
    U sum = 0;
    for (int64_t t = 0; t < count; ++t) sum = static_cast<U>(sum + static_cast<U>(sums[t * inner + c]));
    out[c] = static_cast<A>(sum);
    for (int64_t i = 1; i < n; ++i) {
      const A* from = sums + (i - 1) * stride * inner + c;
      for (int64_t t = 0; t < stride; ++t) {
        sum = static_cast<U>(sum + static_cast<U>(from[(count + t) * inner]));
        sum = static_cast<U>(sum - static_cast<U>(from[t * inner]));
      }
      out[i * inner + c] = static_cast<A>(sum);
    }
  }
}

template <class A>
void windows(const void* from, int64_t stride, int64_t step, int64_t count, int64_t inner, void* to, int64_t n) {
  const A* sums = static_cast<const A*>(from);
  A* __restrict out = static_cast<A*>(to);
  if (n <= 0) return;
  if (step == 1 && count > 16 && stride < count) return slide(sums, stride, count, inner, out, n);
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = 0; c < inner; ++c) {
      const A* cells = sums + t * step * inner + c;
      A* target = out + c;
      const int64_t apart = stride * inner;
      if (t == 0) {
        for (int64_t i = 0; i < n; ++i) target[i * inner] = cells[i * apart];
      } else if (inner == 1 && apart == 1) {
        for (int64_t i = 0; i < n; ++i) target[i] = static_cast<A>(target[i] + cells[i]);
      } else if (inner == 1 && apart == 2) {
        for (int64_t i = 0; i < n; ++i) target[i] = static_cast<A>(target[i] + cells[2 * i]);
      } else {
        for (int64_t i = 0; i < n; ++i) target[i * inner] = static_cast<A>(target[i * inner] + cells[i * apart]);
      }
    }
  }
}

// S / 2^shift to nearest even: adding half the divisor, less one unless the quotient is odd, makes the floor right.
// A shift of a negative number rounds down.
template <class A>
inline A halves(A sum, int shift) {
  const A half = static_cast<A>((A{1} << shift) >> 1);
  if (shift == 0) return sum;
  return static_cast<A>((sum + static_cast<A>(half - 1) + static_cast<A>((sum >> shift) & 1)) >> shift);
}

// The number of zeros below the one bit of a power of two, or -1.
inline int exponent_of(int64_t divisor) {
  if ((divisor & (divisor - 1)) != 0) return -1;
  int exponent = 0;
  while ((int64_t{1} << exponent) < divisor) ++exponent;
  return exponent;
}

// The quotient of integers below 2^52 (float: 2^23) lies at least 1 / (2 * divisor) from any half that it is not, and
// rounding it is off by less; adding and subtracting 1.5 * 2^52 (2^23) then rounds to nearest even.
template <class T, class A>
void mean(const void* from, int64_t divisor, void* to, int64_t n) {
  const A* sums = static_cast<const A*>(from);
  T* __restrict out = static_cast<T*>(to);
  const int shift = exponent_of(divisor);
  if (shift >= 0) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(halves(sums[i], shift));
  } else if constexpr (sizeof(A) == 2) {
    const float d = static_cast<float>(divisor);
    constexpr float magic = 0x1.8p23f;
    for (int64_t i = 0; i < n; ++i) {
      const float q = static_cast<float>(static_cast<std::int32_t>(sums[i])) / d;
      out[i] = static_cast<T>(static_cast<std::int32_t>((q + magic) - magic));
    }
  } else {
    using I = std::conditional_t<(sizeof(T) < 4), std::int32_t, int64_t>;
    const double d = static_cast<double>(divisor);
    constexpr double magic = 0x1.8p52;
    for (int64_t i = 0; i < n; ++i) {
      const double q = static_cast<double>(sums[i]) / d;
      out[i] = static_cast<T>(static_cast<I>((q + magic) - magic));
    }
  }
}

// Sums below 2^24 over a divisor below that are one float division. In double precision a quotient that is no midpoint
// of floats lies at least 2^-25 / divisor beside it, more than the error of the division: rounding again is harmless.
template <class A>
void mean_float(const void* from, int64_t divisor, float* __restrict out, int64_t n) {
  const A* sums = static_cast<const A*>(from);
  if constexpr (sizeof(A) == 2) {
    const float d = static_cast<float>(divisor);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<std::int32_t>(sums[i])) / d;
  } else {
    const double d = static_cast<double>(divisor);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<double>(sums[i]) / d);
  }
}

template <class A>
void mean_double(const void* from, int64_t divisor, double* __restrict out, int64_t n) {
  const A* sums = static_cast<const A*>(from);
  const double d = static_cast<double>(divisor);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(sums[i]) / d;
}

template <class A>
void widen(const void* from, int64_t* __restrict out, int64_t n) {
  const A* sums = static_cast<const A*>(from);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(sums[i]);
}

// Means of pairs of neighbours in 1, 2 or 4 rows: of 2^shift cells.
template <int Rows>
inline constexpr int kPairShift = Rows == 1 ? 1 : Rows == 2 ? 2 : 3;

// Signed numbers are moved up by half their range, which is even: the mean moves with them.
template <class T>
inline constexpr auto kMove =
    static_cast<std::make_unsigned_t<T>>(std::is_signed_v<T> ? std::uint64_t{1} << (8 * sizeof(T) - 1) : 0);

// Large arrays often begin 16 bytes past a cache line: then every load of 64 bytes meets two lines.
inline constexpr int kPairBytes = kVectorBytes < 32 ? kVectorBytes : 32;
template <class U>
using PairVector = Vector<U, kPairBytes>;
template <class U>
inline constexpr int64_t kPairLanes = kLanes<U, kPairBytes>;

// Makes n outputs: `vector(i)` those from i on that fill a vector, `one(i)` a single one. The last vector may overlap
// with the one before.
template <class U, class MakeVector, class MakeOne>
inline void for_outputs(U* out, int64_t n, bool streams, MakeVector vector, MakeOne one) {
  constexpr int64_t lanes = kPairLanes<U>;
  if (n < lanes) {
    for (int64_t i = 0; i < n; ++i) out[i] = one(i);
    return;
  }
  int64_t i = 0;
  if (streams) {
    const auto past = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(out) % kPairBytes);
    if (past != 0) store(out, vector(0));
    i = past == 0 ? 0 : (kPairBytes - past) / static_cast<int64_t>(sizeof(U));
    for (; i + lanes <= n; i += lanes) stream(out + i, vector(i));
  } else {
    for (; i + lanes <= n; i += lanes) store(out + i, vector(i));
  }
  if (i < n) store(out + n - lanes, vector(n - lanes));
}

inline constexpr int64_t kAhead = 512;  // bytes that are asked for before they are read

// Asks for cells that are read soon, two vectors of each row.
template <int Rows, class U>
inline void prefetch_rows(const U* const* rows, int64_t at) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(U)), ahead = kAhead / static_cast<int64_t>(sizeof(U));
  for (int r = 0; r < Rows; ++r)
    for (int64_t k = 0; k < 2 * kPairLanes<U>; k += line) prefetch_line(rows[r] + at + k + ahead);
}

// Sums of up to eight cells fit words of twice their width.
template <class U, U Move, int Rows>
void narrow_pairs(const U* const* rows, U* out, int64_t n, bool streams) {
  using Wide = std::make_unsigned_t<typename IntOfSize<2 * sizeof(U)>::type>;
  using Sums = PairVector<Wide>;
  constexpr int shift = kPairShift<Rows>;
  const auto cells = [&](int r, int64_t at) {
    return sums_of_neighbours(PairVector<U>(load<U, kPairBytes>(rows[r] + at) ^ Move));
  };
  const auto mean = [&](int64_t at) {
    Sums sum = cells(0, at);
    for (int r = 1; r < Rows; ++r) sum += cells(r, at);
    sum += ((sum >> shift) & Wide{1}) + static_cast<Wide>((1 << shift) / 2 - 1);  // see halves
    return Sums(sum >> shift);
  };
  const auto vector = [&](int64_t i) {
    prefetch_rows<Rows>(rows, 2 * i);
    const Sums low = mean(2 * i), high = mean(2 * i + kPairLanes<U>);  // in the order of memory
    return PairVector<U>(in_order(narrowed<U>(low, high)) ^ Move);
  };
  for_outputs(out, n, streams, vector, [&](int64_t i) {
    Wide sum = 0;
    for (int r = 0; r < Rows; ++r)
      for (int64_t phase = 0; phase < 2; ++phase)
        sum = static_cast<Wide>(sum + static_cast<U>(rows[r][2 * i + phase] ^ Move));
    return static_cast<U>(halves(sum, shift) ^ Move);
  });
}

// 64 bits: the sum of the cells' parts above the last `shift` bits fits, since the mean does, and so does that of these
// bits.
template <class U, U Move, int Rows>
void wide_pairs(const U* const* rows, U* out, int64_t n, bool streams) {
  constexpr int shift = kPairShift<Rows>;
  constexpr U last = (U{1} << shift) - 1, half = U{1} << (shift - 1);
  const auto mean = [&](auto cells) {  // cells(row, phase)
    auto high = cells(0, 0) >> shift, low = cells(0, 0) & last;
    for (int r = 0; r < Rows; ++r) {
      for (int phase = r == 0 ? 1 : 0; phase < 2; ++phase) {
        high += cells(r, phase) >> shift;
        low += cells(r, phase) & last;
      }
    }
    return (high + ((low + (half - 1) + ((high + (low >> shift)) & 1)) >> shift)) ^ Move;
  };
  const auto vector = [&](int64_t i) {
    prefetch_rows<Rows>(rows, 2 * i);
    PairVector<U> cells[Rows][2];
    for (int r = 0; r < Rows; ++r) {
      const auto a = load<U, kPairBytes>(rows[r] + 2 * i), b = load<U, kPairBytes>(rows[r] + 2 * i + kPairLanes<U>);
      cells[r][0] = phase_of_two<0>(a, b) ^ Move;
      cells[r][1] = phase_of_two<1>(a, b) ^ Move;
    }
    return PairVector<U>(in_order(mean([&](int r, int phase) { return cells[r][phase]; })));
  };
  for_outputs(out, n, streams, vector, [&](int64_t i) {
    return mean([&](int r, int phase) { return rows[r][2 * i + phase] ^ Move; });
  });
}

template <class T, int Rows>
void pairs_of(const void* const* given, void* to, int64_t n, bool streams, int64_t next) {
  using U = std::make_unsigned_t<T>;
  const U* rows[Rows];
  for (int r = 0; r < Rows; ++r) {
    rows[r] = static_cast<const U*>(given[r]);
    for (int64_t k = 0; next != 0 && k < kAhead; k += 64) prefetch_line(static_cast<const char*>(given[r]) + next + k);
  }
  if constexpr (sizeof(T) == 8) wide_pairs<U, kMove<T>, Rows>(rows, static_cast<U*>(to), n, streams);
  else narrow_pairs<U, kMove<T>, Rows>(rows, static_cast<U*>(to), n, streams);
}

template <class T>
void pairs(const void* const* rows, int64_t count, void* to, int64_t n, bool streams, int64_t next) {
  if (count == 1) pairs_of<T, 1>(rows, to, n, streams, next);
  else if (count == 2) pairs_of<T, 2>(rows, to, n, streams, next);
  else pairs_of<T, 4>(rows, to, n, streams, next);
}

template <class T>
void split_rows(const void* const* rows, int64_t count, int64_t* __restrict high, int64_t* __restrict low, int64_t n) {
  for (int64_t r = 0; r < count; ++r) {
    const T* cells = static_cast<const T*>(rows[r]);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t upper = static_cast<int64_t>(cells[i] >> 32);
      const int64_t lower = static_cast<int64_t>(cells[i] & 0xffffffff);
      high[i] = r == 0 ? upper : high[i] + upper;
      low[i] = r == 0 ? lower : low[i] + lower;
    }
  }
}

void split(const void* const* rows, int64_t count, bool is_signed, int64_t* high, int64_t* low, int64_t n) {
  if (is_signed) split_rows<int64_t>(rows, count, high, low, n);
  else split_rows<std::uint64_t>(rows, count, high, low, n);
}

template <class T, class A>
constexpr IntegerRows rows_of() {
  if constexpr (sizeof(A) <= sizeof(T)) {
    return {};
  } else {
    return {accumulate<T, A>, windows<A>, mean<T, A>, mean_float<A>, mean_double<A>, widen<A>};
  }
}

}  // namespace

const IntegerKernels& integer_kernels() {
  static constexpr IntegerKernels table{
      {{rows_of<std::int8_t, std::int16_t>(), rows_of<std::int8_t, std::int32_t>(), rows_of<std::int8_t, int64_t>()},
       {rows_of<std::int16_t, std::int16_t>(), rows_of<std::int16_t, std::int32_t>(), rows_of<std::int16_t, int64_t>()},
       {rows_of<std::int32_t, std::int16_t>(), rows_of<std::int32_t, std::int32_t>(), rows_of<std::int32_t, int64_t>()},
       {rows_of<std::uint8_t, std::uint16_t>(), rows_of<std::uint8_t, std::uint32_t>(),
        rows_of<std::uint8_t, int64_t>()},
       {rows_of<std::uint16_t, std::uint16_t>(), rows_of<std::uint16_t, std::uint32_t>(),
        rows_of<std::uint16_t, int64_t>()},
       {rows_of<std::uint32_t, std::uint16_t>(), rows_of<std::uint32_t, std::uint32_t>(),
        rows_of<std::uint32_t, int64_t>()}},
      {pairs<std::int8_t>, pairs<std::int16_t>, pairs<std::int32_t>, pairs<std::uint8_t>, pairs<std::uint16_t>,
       pairs<std::uint32_t>, pairs<int64_t>, pairs<std::uint64_t>},
      split};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
