// Exact sums and means of integers, most of them as plain loops that every compiler vectorises.
#include "average/integer_kernels.hpp"

#include <cstring>
#include <type_traits>

#include "simd/deinterleave.hpp"

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

// The sum of the two halves of a word: which of them comes first in memory does not matter.
template <class T>
struct Pair;
template <> struct Pair<std::int8_t> { using Word = std::int16_t; };
template <> struct Pair<std::uint8_t> { using Word = std::uint16_t; };
template <> struct Pair<std::int16_t> { using Word = std::int32_t; };
template <> struct Pair<std::uint16_t> { using Word = std::uint32_t; };
template <> struct Pair<std::int32_t> { using Word = std::int64_t; };
template <> struct Pair<std::uint32_t> { using Word = std::uint64_t; };

template <class T>
inline typename Pair<T>::Word sum_of_halves(const T* at) {
  using Word = typename Pair<T>::Word;
  using Unsigned = std::make_unsigned_t<Word>;
  constexpr int bits = 8 * static_cast<int>(sizeof(T));
  Word word;
  std::memcpy(&word, at, sizeof word);
  const Word low = static_cast<Word>(static_cast<Word>(static_cast<Unsigned>(word) << bits) >> bits);
  return static_cast<Word>(low + static_cast<Word>(word >> bits));
}

template <class T, int Rows>
void pairs_of(const void* const* rows, void* to, int64_t n) {
  using Word = typename Pair<T>::Word;
  const T* a = static_cast<const T*>(rows[0]);
  const T* b = static_cast<const T*>(rows[Rows > 1 ? 1 : 0]);
  const T* c = static_cast<const T*>(rows[Rows > 2 ? 2 : 0]);
  const T* d = static_cast<const T*>(rows[Rows > 2 ? 3 : 0]);
  T* __restrict out = static_cast<T*>(to);
  constexpr int shift = Rows == 1 ? 1 : Rows == 2 ? 2 : 3;
  for (int64_t i = 0; i < n; ++i) {
    Word sum = sum_of_halves(a + 2 * i);
    if constexpr (Rows > 1) sum = static_cast<Word>(sum + sum_of_halves(b + 2 * i));
    if constexpr (Rows > 2) sum = static_cast<Word>(sum + sum_of_halves(c + 2 * i) + sum_of_halves(d + 2 * i));
    out[i] = static_cast<T>(halves(sum, shift));
  }
}

template <class T>
void pairs(const void* const* rows, int64_t count, void* out, int64_t n) {
  if (count == 1) pairs_of<T, 1>(rows, out, n);
  else if (count == 2) pairs_of<T, 2>(rows, out, n);
  else pairs_of<T, 4>(rows, out, n);
}

// Means of 2^shift integers of 64 bits. The sum of their parts above the last `shift` bits fits, since the mean does,
// and so does that of these bits. Signed numbers are moved up by 2^63, which is even: the mean moves with them.
template <class T, int Rows>
void wide_pairs_of(const T* const* rows, T* out, int64_t n) {
  using U = std::uint64_t;
  constexpr int shift = Rows == 1 ? 1 : Rows == 2 ? 2 : 3;
  constexpr U last = (U{1} << shift) - 1, half = U{1} << (shift - 1);
  constexpr U move = std::is_signed_v<T> ? U{1} << 63 : 0;
  const auto mean = [&](auto cells) {  // cells(row, phase)
    auto high = cells(0, 0) >> shift, low = cells(0, 0) & last;
    for (int r = 0; r < Rows; ++r) {
      for (int phase = r == 0 ? 1 : 0; phase < 2; ++phase) {
        high += cells(r, phase) >> shift;
        low += cells(r, phase) & last;
      }
    }
    return (high + ((low + (half - 1) + ((high + (low >> shift)) & 1)) >> shift)) ^ move;
  };
  constexpr int64_t lanes = kLanes<U>;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector<U> cells[Rows][2];
    for (int r = 0; r < Rows; ++r) {
      const auto* row = reinterpret_cast<const U*>(rows[r] + 2 * i);
      const Vector<U> a = load(row), b = load(row + lanes);
      cells[r][0] = phase_of_two<0>(a, b) ^ move;
      cells[r][1] = phase_of_two<1>(a, b) ^ move;
    }
    store(reinterpret_cast<U*>(out + i), in_order(mean([&](int r, int phase) { return cells[r][phase]; })));
  }
  for (; i < n; ++i)
    out[i] = static_cast<T>(mean([&](int r, int phase) { return static_cast<U>(rows[r][2 * i + phase]) ^ move; }));
}

template <class T>
void wide_pairs(const void* const* rows, int64_t count, void* to, int64_t n) {
  const T* cells[4] = {};
  for (int64_t r = 0; r < count; ++r) cells[r] = static_cast<const T*>(rows[r]);
  if (count == 1) wide_pairs_of<T, 1>(cells, static_cast<T*>(to), n);
  else if (count == 2) wide_pairs_of<T, 2>(cells, static_cast<T*>(to), n);
  else wide_pairs_of<T, 4>(cells, static_cast<T*>(to), n);
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
       pairs<std::uint32_t>, wide_pairs<int64_t>, wide_pairs<std::uint64_t>},
      split};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
