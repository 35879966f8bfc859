// Rows of hard max's pullback: sums of the cotangents that a cell has won.
#include <algorithm>

#include "max/gather_kernels.hpp"
#include "simd/masks.hpp"
#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;
using std::uint8_t;

// How sums of more than two terms are made: in double, or in two doubles where the range of the terms is wide; and how
// they are rounded to float.
enum class Long { nearest, odd, wide_nearest, wide_odd };
constexpr bool is_wide(Long way) { return way == Long::wide_nearest || way == Long::wide_odd; }
constexpr bool is_odd(Long way) { return way == Long::odd || way == Long::wide_odd; }

// Cuts a double to the precision of float; the last bit kept is set if anything was lost.
inline Vector<double> to_odd(const Vector<double>& x) {
  constexpr int64_t lost = (int64_t{1} << 29) - 1;
  const auto bits = reinterpret<Vector<int64_t>>(x);
  return reinterpret<Vector<double>>((bits & ~lost) | (((bits & lost) + lost) & (lost + 1)));
}

// A sum starts with -0, which changes nothing. Terms have their signs changed and are subtracted: an absent one is +0,
// which one instruction makes of it, and changes nothing either.
template <class C>
class ShortSum {  // of at most two terms
 public:
  void add(const Lanes<C>& mine, const GatherTerms<C>& terms, int64_t position) {
    sum_ = subtract_where(mine, sum_, load(terms.negated + position));
  }
  Vector<C> rounded() const { return sum_; }

 private:
  Vector<C> sum_ = -splat(C{});
};

// A sum in two doubles.
class TwoDoubles {
 public:
  void add(const Vector<double>& x) {
    const Vector<double> sum = high_ + x;
    const Vector<double> from_x = sum - high_;
    // The error is +0 where there is none, which would turn a sum of -0 into +0: only real errors are added.
    const Vector<double> error = (high_ - (sum - from_x)) + (x - from_x);
    low_ = select(error != Vector<double>{}, low_ + error, low_);
    high_ = sum;
  }
  void subtract(const Lanes<double>& mine, const double* x) { add(-chosen(mine, load(x))); }
  Vector<double> nearest() const { return high_ + low_; }
  // The last bit set if anything is lost: of the two neighbours of a sum that is no double, the odd one.
  Vector<double> odd() const {
    const Vector<double> sum = high_ + low_, from_low = sum - high_;
    const Vector<double> lost = (high_ - (sum - from_low)) + (low_ - from_low);
    const auto bits = reinterpret<Vector<int64_t>>(sum);
    const auto beyond = (lost > Vector<double>{}) == (sum > Vector<double>{});  // the true sum is larger in magnitude
    const Vector<int64_t> below = bits - splat(int64_t{1});
    const Vector<int64_t> neighbour = select(beyond, bits, below) | splat(int64_t{1});
    return reinterpret<Vector<double>>(select(lost != Vector<double>{}, neighbour, bits));
  }

 private:
  Vector<double> high_ = -splat(0.0), low_ = -splat(0.0);
};

class OneDouble {
 public:
  void subtract(const Lanes<double>& mine, const double* x) { sum_ = subtract_where(mine, sum_, load(x)); }
  Vector<double> odd() const { return sum_; }

 private:
  Vector<double> sum_ = -splat(0.0);
};

template <class C, Long Way>
class LongSum {  // of floats, exact in one or two doubles
 public:
  void add(const Lanes<C>& mine, const GatherTerms<C>& terms, int64_t position) {
    low_.subtract(lower(mine), terms.wide + position);
    high_.subtract(upper(mine), terms.wide + position + kLanes<double>);
  }
  Vector<C> rounded() const {
    const Vector<double> low = low_.odd(), high = high_.odd();
    return is_odd(Way) ? narrow(to_odd(low), to_odd(high)) : narrow(low, high);
  }

 private:
  std::conditional_t<is_wide(Way), TwoDoubles, OneDouble> low_, high_;
};

template <Long Way>
class LongSum<double, Way> {
 public:
  void add(const Lanes<double>& mine, const GatherTerms<double>& terms, int64_t position) {
    sum_.subtract(mine, terms.negated + position);
  }
  Vector<double> rounded() const { return sum_.nearest(); }

 private:
  TwoDoubles sum_;
};

// The terms of one class of cells. Count: how many there are, if that is known to the compiler, which then keeps
// everything about them in registers; else -1.
template <class C, Long Rounding, int Count>
class Sums {
 public:
  explicit Sums(const GatherTerms<C>& terms) : terms_(terms) {
    for (int t = 0; t < Count; ++t) {
      places_[t] = terms.positions[t];
      ids_[t] = terms.ids[t];
    }
  }

  // Those of cells i and on.
  Vector<C> operator()(int64_t i) const {
    if (Count > 2 || (Count < 0 && terms_.count > 2)) return total<LongSum<C, Rounding>>(i);
    return total<ShortSum<C>>(i);
  }

 private:
  template <class Sum>
  Vector<C> total(int64_t i) const {
    Lanes<C> any{};
    Sum sum;
    for (int t = 0; t < (Count > 0 ? Count : terms_.count); ++t) {
      const int64_t position = i + (Count > 0 ? places_[t] : terms_.positions[t]);
      const Lanes<C> mine = lanes_equal<C>(static_cast<const LaneNumber<C>*>(terms_.codes) + position,
                                           LaneNumber<C>{Count > 0 ? ids_[t] : terms_.ids[t]});
      any = either(any, mine);
      sum.add(mine, terms_, position);
    }
    return chosen(any, sum.rounded());
  }

  GatherTerms<C> terms_;
  int64_t places_[Count > 0 ? Count : 1];
  uint8_t ids_[Count > 0 ? Count : 1];
};

template <class C>
inline void put(C* target, const Vector<C>& v, bool past_caches) {
  if (past_caches && sizeof v == kVectorBytes) stream_vector(target, &v);
  else store(target, v);
}

template <class C>
inline void put_first(C* target, const Vector<C>& v, int64_t left, bool past_caches) {
  if (left >= kLanes<C>) put(target, v, past_caches);
  else if (left > 0) store_first<C>(target, v, left);
}

template <class C, Long Rounding, int Count>
void one_way(const GatherTerms<C>& terms, C* out, const RowRun& rows, bool past) {
  const Sums<C, Rounding, Count> sums(terms);
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t from = r * rows.from_step;
    C* const target = out + r * rows.to_step;
    for (int64_t i = 0; i < rows.items; i += kLanes<C>) put_first<C>(target + i, sums(from + i), rows.items - i, past);
  }
}

template <class C, Long Rounding, int First, int Second>
void two_ways(const GatherTerms<C>* ways, C* out, const RowRun& rows, bool past) {
  constexpr int64_t lanes = kLanes<C>;
  const Sums<C, Rounding, First> first(ways[0]);
  const Sums<C, Rounding, Second> second(ways[1]);
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t from = r * rows.from_step;
    C* const target = out + r * rows.to_step;
    int64_t i = 0;
    for (; i + 2 * lanes <= rows.items; i += 2 * lanes) {
      const Vector<C> a = first(from + i / 2), b = second(from + i / 2);
      put<C>(target + i, zip_low<C>(a, b), past);
      put<C>(target + i + lanes, zip_high<C>(a, b), past);
    }
    if (i == rows.items) continue;
    const Vector<C> a = first(from + i / 2), b = second(from + i / 2);
    put_first<C>(target + i, zip_low<C>(a, b), rows.items - i, past);
    put_first<C>(target + i + lanes, zip_high<C>(a, b), rows.items - i - lanes, past);
  }
}

template <class C, Long Rounding, int Count>
void three_ways(const GatherTerms<C>* ways, C* out, const RowRun& rows, bool past) {
  constexpr int64_t lanes = kLanes<C>;
  using Sequence = std::make_integer_sequence<int, kLanes<C>>;
  const Sums<C, Rounding, Count> first(ways[0]), second(ways[1]), third(ways[2]);
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t from = r * rows.from_step;
    for (int64_t i = 0; i < rows.items; i += 3 * lanes) {
      const Vector<C> a = first(from + i / 3), b = second(from + i / 3), c = third(from + i / 3);
      C* const target = out + r * rows.to_step + i;
      const int64_t left = rows.items - i;
      put_first<C>(target, zip_three<C, 0>(a, b, c, Sequence{}), left, past);
      put_first<C>(target + lanes, zip_three<C, 1>(a, b, c, Sequence{}), left - lanes, past);
      put_first<C>(target + 2 * lanes, zip_three<C, 2>(a, b, c, Sequence{}), left - 2 * lanes, past);
    }
  }
}

// A class of a row among many, its sums put in place one by one.
template <class C, Long Rounding, int Count>
void spread(const GatherTerms<C>& terms, int64_t way_count, int64_t positions, C* out, const RowRun& rows) {
  const Sums<C, Rounding, Count> sums(terms);
  for (int64_t r = 0; r < rows.count; ++r) {
    C* const target = out + r * rows.to_step;
    for (int64_t i = 0; i < positions; i += kLanes<C>) {
      C some[kLanes<C>];
      store(some, sums(r * rows.from_step + i));
      for (int64_t j = 0; j < kLanes<C> && i + j < positions; ++j) target[(i + j) * way_count] = some[j];
    }
  }
}

template <class C, Long Rounding>
void many_ways(const GatherTerms<C>* ways, int way_count, C* out, const RowRun& rows) {
  for (int way = 0; way < way_count && way < rows.items; ++way) {
    const int64_t positions = (rows.items - way + way_count - 1) / way_count;
    if (ways[way].count == 1) spread<C, Rounding, 1>(ways[way], way_count, positions, out + way, rows);
    else spread<C, Rounding, -1>(ways[way], way_count, positions, out + way, rows);
  }
}

template <class C, Long Rounding>
void gather(const GatherTerms<C>* ways, int way_count, C* out, const RowRun& rows, bool past) {
  if constexpr (is_wide(Rounding) && std::is_same_v<C, float>) {  // rare: no code for every number of terms
    if (way_count == 1) return one_way<C, Rounding, -1>(ways[0], out, rows, past);
    return many_ways<C, Rounding>(ways, way_count, out, rows);
  }
  if (way_count == 1) {
    switch (ways[0].count) {
      case 1: return one_way<C, Rounding, 1>(ways[0], out, rows, past);
      case 2: return one_way<C, Rounding, 2>(ways[0], out, rows, past);
      case 4: return one_way<C, Rounding, 4>(ways[0], out, rows, past);
      case 9: return one_way<C, Rounding, 9>(ways[0], out, rows, past);
      default: return one_way<C, Rounding, -1>(ways[0], out, rows, past);
    }
  }
  if (way_count == 2) {
    switch (1000 * ways[0].count + ways[1].count) {  // a class has at most 255 terms
      case 1001: return two_ways<C, Rounding, 1, 1>(ways, out, rows, past);
      case 1002: return two_ways<C, Rounding, 1, 2>(ways, out, rows, past);
      case 2001: return two_ways<C, Rounding, 2, 1>(ways, out, rows, past);
      case 2004: return two_ways<C, Rounding, 2, 4>(ways, out, rows, past);
      case 4008: return two_ways<C, Rounding, 4, 8>(ways, out, rows, past);
      case 8004: return two_ways<C, Rounding, 8, 4>(ways, out, rows, past);
      case 4002: return two_ways<C, Rounding, 4, 2>(ways, out, rows, past);
      default: return two_ways<C, Rounding, -1, -1>(ways, out, rows, past);
    }
  }
  if (way_count == 3) {
    const bool single = ways[0].count == 1 && ways[1].count == 1 && ways[2].count == 1;
    if (single) return three_ways<C, Rounding, 1>(ways, out, rows, past);
    return three_ways<C, Rounding, -1>(ways, out, rows, past);
  }
  many_ways<C, Rounding>(ways, way_count, out, rows);
}

// The extremes of the magnitudes, a vector at a time.
template <class C>
class RangeWatch {
 public:
  using U = std::make_unsigned_t<int_like<C>>;
  void see(const Vector<C>& v) {
    const Vector<U> bits = reinterpret<Vector<U>>(v) & splat(static_cast<U>(static_cast<U>(~U{0}) >> 1));
    const Vector<U> below = bits - splat(U{1});  // zero becomes the largest of all
    largest_ = larger_of<U>(bits, largest_);
    smallest_ = smaller_of<U>(below, smallest_);
  }
  void note(ExponentRange& range) const {
    U small[kLanes<C>], large[kLanes<C>];
    store(small, smallest_);
    store(large, largest_);
    for (int i = 0; i < kLanes<C>; ++i) {
      range.smallest = small[i] < range.smallest ? small[i] : range.smallest;
      range.largest = large[i] > range.largest ? large[i] : range.largest;
    }
  }

 private:
  Vector<U> smallest_ = splat(static_cast<U>(~U{0})), largest_ = splat(U{0});
};

template <class C>
void negate(const C* source, C* target, double* wide, const RowRun& rows, ExponentRange& range) {
  RangeWatch<C> watch;
  const auto see = [&](const Vector<C>& v, int64_t at) {
    watch.see(v);
    if constexpr (std::is_same_v<C, float>) {
      if (wide == nullptr) return;
      store(wide + at, widen_low(v));
      if constexpr (kLanes<float> > 1) store(wide + at + kLanes<double>, widen_high(v));
    }
  };
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const from = source + r * rows.from_step;
    const int64_t to = r * rows.to_step;
    int64_t i = 0;
    for (; i + kLanes<C> <= rows.items; i += kLanes<C>) {
      const Vector<C> v = -load(from + i);
      see(v, to + i);
      store(target + to + i, v);
    }
    if (i == rows.items) continue;
    const Vector<C> rest = -load_first(from + i, rows.items - i);
    see(rest, to + i);
    store_first<C>(target + to + i, rest, rows.items - i);
  }
  watch.note(range);
}

template <class C>
void put_codes(const uint8_t* source, void* target, const RowRun& rows) {
  using Number = LaneNumber<C>;
  constexpr int64_t wide = kLanes<C>;
  for (int64_t r = 0; r < rows.count; ++r) {
    const uint8_t* const from = source + r * rows.from_step;
    Number* const to = static_cast<Number*>(target) + r * rows.to_step;
    if (sizeof(Number) == 1 || rows.items < wide) {
      std::copy_n(from, rows.items, to);
      continue;
    }
    for (int64_t next = 0; next < rows.items; next += wide) {  // the last one overlaps its neighbour
      const int64_t i = next + wide > rows.items ? rows.items - wide : next;
      if constexpr (sizeof(Number) > 1)
        store(to + i, reinterpret<Vector<Number>>(widen_bytes<std::make_unsigned_t<Number>>(from + i)));
    }
  }
}

}  // namespace

const GatherKernels& gather_kernels() {
  static constexpr GatherKernels table{gather<float, Long::nearest>,
                                       gather<float, Long::odd>,
                                       gather<float, Long::wide_nearest>,
                                       gather<float, Long::wide_odd>,
                                       gather<double, Long::wide_nearest>,
                                       negate<float>,
                                       negate<double>,
                                       put_codes<float>,
                                       put_codes<double>,
                                       sizeof(LaneNumber<float>),
                                       sizeof(LaneNumber<double>)};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
