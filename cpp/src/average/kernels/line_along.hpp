// Sums along a row of sums: of neighbours, of windows one or two apart, of long windows. Included by kernels only.
//
// What becomes of the sums is up to a sink, which takes vectors of them: all, or the first `left` of them. Loops
// copy their arguments: copies stay in registers, whatever a sink writes to. Arguments of several words are references,
// because handing them over by value would read them from memory in other pieces than they have just been written in.
#pragma once

#include "average/kernels/line_values.hpp"
#include "average/kernels/sum_finish.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Keeps sums. Writes whole vectors: what it writes past the end of a segment is written again or is slack.
template <class T>
struct KeepSums {
  Sums sums;
  Index pitch;

  struct Line {
    Sums out;
    void take(Index at, const Held<T, Doubles>& v, Index) const { put(out, at, v); }
    void take_all(Index at, const Held<T, Doubles>& v) const { put(out, at, v); }
  };
  Line line(Index k) const { return {sums + k * pitch}; }
};

// Divides them by a number whose inverse is good enough (SumDivisor::rest = 0), rounds and stores.
template <class T>
struct RoundQuotients {
  T* const* outs;
  const SumDivisor& divisor;

  struct Line {
    T* out;
    double inverse;
    HALFULP_IN_LINE void take(Index at, const Single<Doubles>& v, Index left) const {
      store_first_rounded(out + at, Doubles(v.sum * all<Doubles>(inverse)), left);
    }
    HALFULP_IN_LINE void take_all(Index at, const Single<Doubles>& v) const {
      store_rounded(out + at, Doubles(v.sum * all<Doubles>(inverse)));
    }
  };
  Line line(Index k) const { return {outs[k], divisor.high}; }
};

// n quotients; what a float64's test leaves undecided is resolved exactly.
template <class T>
void divide(const LineTask<T>& task, const Sums& sums, Index n, const SumDivisor& d, T* out) {
  const Index undecided = [&] {
    if constexpr (std::is_same_v<T, double>)
      return finish_f64_exact(sums, n, d, out, task.undecided);
    else
      return finish_exact(sums, n, d, out, task.undecided);
  }();
  for (Index u = 0; u < undecided; ++u) {
    const Index i = task.undecided[u];
    out[i] = task.resolve(sums.sum[i], sums.low == nullptr ? 0.0 : sums.low[i], static_cast<Index>(d.value));
  }
}

// The same for float64. What is not decided here, and the end of a line, is divided with more care.
struct RoundPairs {
  double* const* outs;
  const SumDivisor& divisor;
  const LineTask<double>& task;

  struct Line {
    double* out;
    const SumDivisor& divisor;
    const LineTask<double>& task;

    void take(Index at, const Pair<Doubles>& v, Index left) const {
      if (left < kWide) return take_with_care(at, v.sum, v.low, left);
      const QuotientEnds<Doubles> ends = quotient_ends(v, divisor);
      if (equal_in_all(ends.near, ends.far)) return put_part(out + at, ends.near);
      Doubles quotient;
      if (!all_lanes(decided_f64(v, divisor, quotient))) return take_with_care(at, v.sum, v.low, left);
      put_part(out + at, quotient);
    }

    void take_all(Index at, const Pair<Doubles>& v) const { take(at, v, kWide); }

    // By value: a pair that has an address would be stored each time.
    HALFULP_NOINLINE void take_with_care(Index at, Doubles sum, Doubles low, Index left) const {
      double parts[2 * kWide];
      const Sums stored{parts, parts + kWide, nullptr};
      put(stored, 0, Pair<Doubles>{sum, low});
      divide(task, stored, left < kWide ? left : kWide, divisor, out + at);
    }
  };
  Line line(Index k) const { return {outs[k], divisor, task}; }
};

// The same for sums that are off by up to `error`: both ends of the interval around a quotient must round alike. Its
// ends' own rounding and the product's are covered by 2^-51 |q|.
template <class T>
struct BoundedQuotients {
  T* const* outs;
  std::uint8_t* unsure;
  SumDivisor divisor;
  double error;  // of the quotients

  struct Line {
    const BoundedQuotients& all_lines;
    Index k;
    void take(Index at, const Single<Doubles>& v, Index left) const {
      const Doubles q = v.sum * all<Doubles>(all_lines.divisor.inverse);
      const Doubles e = magnitude(q) * all<Doubles>(0x1p-51) + all<Doubles>(all_lines.error);
      T low[kWide], high[kWide];
      store_rounded(low, Doubles(q - e));
      store_rounded(high, Doubles(q + e));
      const Index n = left < kWide ? left : kWide;
      for (Index i = 0; i < n; ++i) {
        if (std::memcmp(low + i, high + i, sizeof(T)) != 0) all_lines.unsure[k] = 1;
        all_lines.outs[k][at + i] = low[i];
      }
    }
    void take_all(Index at, const Single<Doubles>& v) const { take(at, v, kWide); }
  };
  Line line(Index k) const { return {*this, k}; }
};

// Rows of sums that are worked on together: what one needs of memory is written long before it is read again.
struct SumRows {
  Sums first;
  Index pitch, count;
  Sums operator[](Index k) const { return first + k * pitch; }
};

// The sum of `count` > 0 values of a row, `step` apart. `Count` > 0 is known at compile time.
template <class T, class V, int Count>
inline Held<T, V> cells(const Sums& in, Index at, Index count, Index step) {
  Held<T, V> v = get<T, V>(in, at);
  for (Index j = 1; j < (Count > 0 ? Count : count); ++j) v = plus(v, get<T, V>(in, at + j * step));
  return v;
}

// Windows one apart.
template <class T, int Count, class Sink>
HALFULP_NOINLINE void along_by_one(const SumRows& from, const SumSegment& segment, const Sink& sink) {
  const SumRows rows = from;
  const SumSegment g = segment;
  for (Index k = 0; k < rows.count; ++k) {
    const Sums in = rows[k];
    const auto line = sink.line(k);
    const auto sums = [&](Index t) { return cells<T, Doubles, Count>(in, g.first + t, g.count, g.step); };
    Index t = 0;
    for (; t + kWide <= g.length; t += kWide) line.take_all(g.output + t, sums(t));
    if (t < g.length) line.take(g.output + t, sums(t), g.length - t);
  }
}

// f applied to the parts of sums.
template <class H, class F>
inline H by_parts(const H& a, const H& b, F f) {
  H v;
  v.sum = f(a.sum, b.sum);
  if constexpr (requires { v.low; }) v.low = f(a.low, b.low);
  if constexpr (requires { v.bound; }) v.bound = f(a.bound, b.bound);
  return v;
}

// Elements Start and on of vectors put together.
template <int Start, class H>
inline H sums_from(const H* v) {
  constexpr int vector = Start / kWide;
  if constexpr (Start % kWide == 0) return v[vector];
  else return by_parts(v[vector], v[vector + 1], [](const Doubles& a, const Doubles& b) {
    return shuffled<Start % kWide, 1>(a, b, std::make_integer_sequence<int, kWide>{});
  });
}

// The sums of up to eight neighbours, by doubling: every value is read once, the rest happens in registers.
template <class T>
class Neighbours {
 public:
  explicit Neighbours(const Sums& in) : in_(in) {
    for (int i = 0; i < kOnes; ++i) step();
  }

  void step() {
    for (int i = 0; i < kOnes; ++i) one_[i] = one_[i + 1];
    for (int i = 0; i < kTwos; ++i) two_[i] = two_[i + 1];
    for (int i = 0; i < kFours; ++i) four_[i] = four_[i + 1];
    one_[kOnes] = get<T, Doubles>(in_, at_);
    at_ += kWide;
    two_[kTwos] = plus(one_[kTwos], sums_from<1>(one_ + kTwos));
    four_[kFours] = plus(two_[kFours], sums_from<2>(two_ + kFours));
  }

  Held<T, Doubles> eight() const { return plus(four_[0], sums_from<4>(four_)); }

  // Of the first D, one to seven.
  template <int D>
  Held<T, Doubles> first() const {
    if constexpr (D >= 4) return with_rest<D - 4, 4>(four_[0]);
    else return D >= 2 ? with_rest<D % 2, 2>(two_[0]) : one_[0];
  }

 private:
  // How many vectors ahead of the result there must be.
  static constexpr int kFours = (4 + kWide - 1) / kWide, kTwos = kFours + (2 + kWide - 1) / kWide, kOnes = kTwos + 1;

  template <int Rest, int From>
  Held<T, Doubles> with_rest(const Held<T, Doubles>& v) const {
    const Held<T, Doubles> more = Rest >= 2 ? plus(v, sums_from<From>(two_)) : v;
    return Rest % 2 == 1 ? plus(more, sums_from<From + (Rest >= 2 ? 2 : 0)>(one_)) : more;
  }

  Sums in_;
  Index at_ = 0;
  Held<T, Doubles> one_[kOnes + 1] = {}, two_[kTwos + 1] = {}, four_[kFours + 1] = {};
};

// Of windows of 8 q + D neighbours, one apart: the sum of the last D to `kept`, and at every position the sum of eight
// to `out`, of which q are to be added.
template <class T, int D>
void sum_neighbours(const SumRows& from, Index q, Index length, const SumRows& to_sums, const SumRows& to_kept) {
  const SumRows rows = from, out = to_sums, kept = to_kept;
  const Index last = 8 * q, n = length + (D > 0 ? last : last - 8);
  for (Index k = 0; k < rows.count; ++k) {
    const Sums to = out[k], rest = kept[k];
    Neighbours<T> sums(rows[k]);
    for (Index i = 0; i < n; i += kWide) {
      sums.step();
      if constexpr (D > 0)
        if (i >= last) put(rest, i - last, sums.template first<D>());
      put(to, i, sums.eight());
    }
  }
}

// Of n values `unit` apart: the sum of the first `rest` to `kept` if there are any, added to what is there if there is
// some, and the sum of eight to `out`.
template <class T>
HALFULP_NOINLINE void sum_eights(const SumRows& from, Index unit, Index n, const SumRows& to_sums,
                                 const SumRows& to_kept, Index rest, Index length, bool add) {
  const SumRows rows = from, out = to_sums, kept = to_kept;
  for (Index k = 0; k < rows.count; ++k) {
    const Sums in = rows[k], to = out[k], first = kept[k];
    for (Index i = 0; i < n; i += kWide) {
      Held<T, Doubles> v = get<T, Doubles>(in, i);
      for (Index j = 1; j < 8; ++j) {
        if (j == rest && i < length) put(first, i, add ? plus(get<T, Doubles>(first, i), v) : v);
        v = plus(v, get<T, Doubles>(in, i + j * unit));
      }
      put(to, i, v);
    }
  }
}

// `Count` sums `unit` apart, and what was kept of each window if there is some. `Count` = 0: `count` of them.
template <class T, int Count, class Sink>
HALFULP_NOINLINE void sum_rest(const SumRows& from, Index count, Index unit, bool some, const SumRows& from_kept,
                            Index length, Index output, const Sink& sink) {
  const SumRows rows = from, kept = from_kept;
  for (Index k = 0; k < rows.count; ++k) {
    const Sums in = rows[k], first = kept[k];
    const auto line = sink.line(k);
    for (Index t = 0; t < length; t += kWide) {
      const Held<T, Doubles> v = cells<T, Doubles, Count>(in, t, count, unit);
      line.take(output + t, some ? plus(get<T, Doubles>(first, t), v) : v, length - t);
    }
  }
}

// Long windows one apart, by eights: a window of 8 q + d values is q sums of eight and d values, and these sums are
// summed in the same way. Neighbours cost three additions at each position and up to two more for the rest, later steps
// seven.
template <class H, class Sink>
void along_by_eights(const SumRows& rows, const AlongTask& task, const SumSegment& g, const Sink& sink) {
  using First = void (*)(const SumRows&, Index, Index, const SumRows&, const SumRows&);
  static constexpr First neighbours[8] = {sum_neighbours<H, 0>, sum_neighbours<H, 1>, sum_neighbours<H, 2>,
                                          sum_neighbours<H, 3>, sum_neighbours<H, 4>, sum_neighbours<H, 5>,
                                          sum_neighbours<H, 6>, sum_neighbours<H, 7>};
  const SumRows work{task.work, task.row_pitch, rows.count}, kept{task.sums + g.output, task.sums_pitch, rows.count};
  SumRows current{rows.first + g.first, rows.pitch, rows.count};
  Index count = g.count, unit = g.step;
  bool some = false;
  if (unit == 1) {
    neighbours[count % 8](current, count / 8, g.length, work, kept);
    some = count % 8 > 0;
    current = work;
    count /= 8;
    unit = 8;
  }
  for (; count >= 8; count /= 8, unit *= 8) {
    const Index rest = count % 8, n = g.length + rest * unit + (count / 8 - 1) * 8 * unit;
    sum_eights<H>(current, unit, n, work, kept, rest, g.length, some);
    some = some || rest > 0;
    current.first = work.first + rest * unit;
    current.pitch = work.pitch;
  }
  const auto finish = count == 1   ? sum_rest<H, 1, Sink>
                      : count == 2 ? sum_rest<H, 2, Sink>
                      : count == 3 ? sum_rest<H, 3, Sink>
                                   : sum_rest<H, 0, Sink>;
  finish(current, count, unit, some, kept, g.length, g.output, sink);
}

// Windows two apart, of neighbouring values. Short ones are made directly where they can be; see line_direct.hpp.
template <class T, class Sink>
void along_by_two(const SumRows& from, const SumSegment& segment, const Sink& sink) {
  const SumRows rows = from;
  const SumSegment g = segment;
  for (Index k = 0; k < rows.count; ++k) {
    const Sums in = rows[k];
    const auto line = sink.line(k);
    const auto evens = [&](Index at) {
      return by_parts(get<T, Doubles>(in, at), get<T, Doubles>(in, at + kWide), even<double>);
    };
    const auto odds = [&](Index at) {
      return by_parts(get<T, Doubles>(in, at), get<T, Doubles>(in, at + kWide), odd<double>);
    };
    for (Index t = 0; t < g.length; t += kWide) {
      const Index at = g.first + 2 * t;
      Held<T, Doubles> v = evens(at);
      for (Index j = 1; j < g.count; ++j) v = plus(v, j % 2 == 0 ? evens(at + j) : odds(at + j - 1));
      line.take(g.output + t, v, g.length - t);
    }
  }
}

// Two segments whose outputs alternate.
template <class T, class Sink>
void along_alternating(const SumRows& from, const SumSegment& first, const SumSegment& second, const Sink& sink) {
  const SumRows rows = from;
  const SumSegment a = first, b = second;
  const Index outputs = a.length + b.length;
  for (Index k = 0; k < rows.count; ++k) {
    const Sums in = rows[k];
    const auto line = sink.line(k);
    for (Index t = 0; t < a.length; t += kWide) {
      const Held<T, Doubles> x = cells<T, Doubles, 0>(in, a.first + t, a.count, a.step);
      const Held<T, Doubles> y = cells<T, Doubles, 0>(in, b.first + t, b.count, b.step);
      const Index at = a.output + 2 * t, left = outputs - 2 * t;
      line.take(at, by_parts(x, y, zip_low<double>), left);
      if (left > kWide) line.take(at + kWide, by_parts(x, y, zip_high<double>), left - kWide);
    }
  }
}

inline bool alternate_outputs(const SumSegment& a, const SumSegment& b) {
  return a.output_step == 2 && b.output_step == 2 && b.output == a.output + 1 && a.first_step == 1 &&
         b.first_step == 1 && b.length <= a.length && b.length + 1 >= a.length;
}

template <class T, class Sink>
bool alternate(const SumRows& rows, const SumSegment* segments, const Sink& sink) {
  const bool swapped = segments[1].output < segments[0].output;
  const SumSegment &a = segments[swapped ? 1 : 0], &b = segments[swapped ? 0 : 1];
  if (!alternate_outputs(a, b)) return false;
  along_alternating<T>(rows, a, b, sink);
  return true;
}

// Windows one or two apart; false if they are not.
template <class H, class Sink>
bool along_in_vectors(const AlongTask& task, const SumRows& rows, const SumSegment& g, const Sink& sink) {
  if (g.output_step == 1 && g.first_step == 1) {
    switch (g.count) {
      case 1: along_by_one<H, 1>(rows, g, sink); break;
      case 2: along_by_one<H, 2>(rows, g, sink); break;
      case 3: along_by_one<H, 3>(rows, g, sink); break;
      default:
        if (g.count < 8) along_by_one<H, 0>(rows, g, sink);
        else along_by_eights<H>(rows, task, g, sink);
    }
    return true;
  }
  if (g.output_step != 1 || g.first_step != 2 || g.step != 1) return false;
  along_by_two<H>(rows, g, sink);
  return true;
}

// All outputs of the lines at once; false if their windows are of different kinds.
template <class H, class Sink>
bool along_at_once(const AlongTask& task, const SumRows& rows, const Sink& sink) {
  if (task.segment_count == 2) return alternate<H>(rows, task.segments, sink);
  return task.segment_count == 1 && along_in_vectors<H>(task, rows, task.segments[0], sink);
}

// One window for all outputs.
template <class T>
void along_repeated(const Sums& in, const SumSegment& g, const Sums& out) {
  const Held<T, double> v = cells<T, double, 0>(in, g.first, g.count, g.step);
  for (Index t = 0; t < g.length; ++t) put(out, g.output + t * g.output_step, v);
}

template <class T>
void along_by_any(const Sums& in, const SumSegment& g, const Sums& out) {
  for (Index t = 0; t < g.length; ++t)
    put(out, g.output + t * g.output_step, cells<T, double, 0>(in, g.first + t * g.first_step, g.count, g.step));
}

// Long windows of neighbours, each on its own.
template <class T>
void along_apart(const Sums& in, const SumSegment& g, const Sums& out) {
  for (Index t = 0; t < g.length; ++t) {
    const Index at = g.first + t * g.first_step;
    Held<T, Doubles> lanes = get<T, Doubles>(in, at);
    Index j = kWide;
    for (; j + kWide <= g.count; j += kWide) lanes = plus(lanes, get<T, Doubles>(in, at + j));
    double parts[3 * kWide];
    const Sums stored{parts, parts + kWide, parts + 2 * kWide};
    put(stored, 0, lanes);
    for (Index half = kWide / 2; half > 0; half /= 2)
      for (Index i = 0; i < half; ++i)
        put(stored, i, plus(get<T, double>(stored, i), get<T, double>(stored, i + half)));
    Held<T, double> v = get<T, double>(stored, 0);
    for (; j < g.count; ++j) v = plus(v, get<T, double>(in, at + j));
    put(out, g.output + t * g.output_step, v);
  }
}

// The sums of lines, to task.sums.
template <class H>
void along(const AlongTask& task, const SumRows& rows) {
  const KeepSums<H> keep{task.sums, task.sums_pitch};
  if (along_at_once<H>(task, rows, keep)) return;
  for (Index s = 0; s < task.segment_count; ++s) {
    const SumSegment& g = task.segments[s];
    if (along_in_vectors<H>(task, rows, g, keep)) continue;
    for (Index k = 0; k < rows.count; ++k) {
      const Sums in = rows[k], out = task.sums + k * task.sums_pitch;
      if (g.first_step == 0 && g.length > 1) along_repeated<H>(in, g, out);
      else if (g.count >= 2 * kWide && g.step == 1) along_apart<H>(in, g, out);
      else along_by_any<H>(in, g, out);
    }
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
