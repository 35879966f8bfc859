// Two ways to make lines without a row of sums for each. Short windows two apart of float64 come straight from the
// source: columns are added as they are needed. Where outputs of two kinds alternate, as in the transpose of the
// former, sums along a row of the source serve all lines that it belongs to. Included by fast_kernels.cpp only.
#pragma once

#include <bit>

#include "average/kernels/line_along.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// A row for itself.
template <class T>
struct PlainAddition {
  using Values = Held<T, Doubles>;
  HALFULP_IN_LINE Values one(const Doubles& x) const { return held<T, Doubles>(x); }
};

// float64 whose magnitudes are known: sums start at an anchor so large that they keep its exponent. Then what an
// addition loses is known after two operations more, and sums of sums lose nothing; see error-bounds-pooling.md. A
// negative zero is found in the low part: that is one only if all terms are.
struct AnchoredAddition {
  using Values = Pair<Doubles>;
  double anchor;

  HALFULP_IN_LINE Values one(const Doubles& x) const { return with_lost(all<Doubles>(anchor), x); }
  HALFULP_IN_LINE Values two(const Doubles& x, const Doubles& y) const { return with(one(x), y); }
  HALFULP_IN_LINE Values with(const Values& v, const Doubles& x) const {
    const Values more = with_lost(v.sum, x);
    return {more.sum, v.low + more.low};
  }
  // `w` without its anchor.
  HALFULP_IN_LINE Values joined(const Values& v, const Values& w) const { return {v.sum + w.sum, v.low + w.low}; }
  HALFULP_IN_LINE Values lowered(const Values& v) const { return {v.sum - all<Doubles>(anchor), v.low}; }
  HALFULP_IN_LINE Values finished(const Values& v) const {
    using Bits = Vector<std::uint64_t>;
    const Bits sum = reinterpret<Bits>(Doubles(v.sum - all<Doubles>(anchor)));
    const auto negative_zero = reinterpret<Bits>(v.low) == splat(Binary64::sign);
    return {reinterpret<Doubles>(select(negative_zero, splat(Binary64::sign), sum)), v.low};
  }

 private:
  static HALFULP_IN_LINE Values with_lost(const Doubles& v, const Doubles& x) {
    const Doubles s = v + x;
    return {s, x - (s - v)};
  }
};

// An anchor for windows of up to nine cells, kept as long as it is large enough: 1.5 times 2^5 times the power of two
// next to the largest magnitude. Nine times that magnitude changes no exponent.
class Anchor {
 public:
  void cover(const MagnitudeLanes<double>& magnitudes) {
    if (all_lanes(magnitudes.largest <= splat(limit_))) return;
    std::uint64_t lanes[MagnitudeLanes<double>::kWidth], largest = 0;
    std::memcpy(lanes, &magnitudes.largest, sizeof lanes);
    for (const std::uint64_t bits : lanes) largest = bits > largest ? bits : largest;
    const std::uint64_t exponent = largest >> 52, raised = exponent + 6 < 2046 ? exponent + 6 : 2046;
    limit_ = ((exponent + 1) << 52) - 1;
    addition_.anchor = std::bit_cast<double>(raised << 52 | std::uint64_t{1} << 51);  // too large sums are not used
  }
  const AnchoredAddition& addition() const { return addition_; }

 private:
  AnchoredAddition addition_{1.5};
  std::uint64_t limit_ = 0;
};

template <class V, class M>
inline Single<V> chosen(const M& mask, const Single<V>& a, const Single<V>& b) { return {select(mask, a.sum, b.sum)}; }
template <class V, class M>
inline Pair<V> chosen(const M& mask, const Pair<V>& a, const Pair<V>& b) {
  return {select(mask, a.sum, b.sum), select(mask, a.low, b.low)};
}

// The columns of a line as sums of its rows. Margins hold zeros.
template <class T, int Rows, class Addition = PlainAddition<T>>
class SummedColumns {
 public:
  using Values = typename Addition::Values;

  SummedColumns(const LineTask<T>& task, const Index* rows, const Addition& addition = {})
      : addition_(addition),
        margin_(task.margin),
        width_(task.width),
        before_(task.zero_before),
        after_(task.zero_after) {
    for (int r = 0; r < Rows; ++r) rows_[r] = task.source + task.column + rows[r] - task.margin;
  }

  // Those from `at` of a row of sums on, all of them real.
  HALFULP_IN_LINE Values inside(Index at) const {
    return sum([&](int r) { return widened<Doubles>(rows_[r] + at); });
  }

  // How many vectors, `step` apart, are inside from `at` on.
  Index vectors_inside(Index at, Index step, Index wanted) const {
    const Index room = margin_ + width_ - at;
    const Index found = at < margin_ || room < step ? 0 : room / step;
    return found < wanted ? found : wanted;
  }

  Values anywhere(Index at) const {
    if (at >= margin_ && at + kWide <= margin_ + width_) return inside(at);
    if (at + kWide <= margin_) return addition_.one(all<Doubles>(before_));
    if (at >= margin_ + width_) return addition_.one(all<Doubles>(after_));
    return partly_inside(at);
  }

 private:
  template <class Load>
  HALFULP_IN_LINE Values sum(Load load) const {
    if constexpr (Rows == 1) {
      return addition_.one(load(0));
    } else {
      Values v = addition_.two(load(0), load(1));
      for (int r = 2; r < Rows; ++r) v = addition_.with(v, load(r));
      return v;
    }
  }

  HALFULP_NOINLINE Values partly_inside(Index at) const {
    using Bits = typename format_of<T>::bits_type;
    using Numbers = Vector<std::int64_t>;
    const Within<Bits> within(at - margin_, width_);
    Values v = sum([&](int r) {
      T lanes[kLanes<Bits>];
      const Vector<Bits> found = within.or_zero(reinterpret_cast<const Bits*>(rows_[r]) + at);
      std::memcpy(static_cast<void*>(lanes), &found, sizeof found);
      return widened<Doubles>(lanes);
    });
    Numbers number;
    for (Index lane = 0; lane < kWide; ++lane) number[lane] = at + lane;
    v = chosen(number < splat(std::int64_t{margin_}), addition_.one(all<Doubles>(before_)), v);
    return chosen(number >= splat(std::int64_t{margin_ + width_}), addition_.one(all<Doubles>(after_)), v);
  }

  Addition addition_;
  const T* rows_[Rows];  // where a row of sums begins
  Index margin_, width_;
  double before_, after_;
};

template <class V>
inline V shifted_in(const V& before, const V& v) {
  return shuffled<kWide - 1, 1>(before, v, std::make_integer_sequence<int, kWide>{});
}

// Windows two apart of Count = 2 or 3 neighbours. The first of three is the last of the window before.
template <int Count, int Rows, class Line>
HALFULP_NOINLINE void direct_by_two(const LineTask<double>& task, const SumLine& from, const AnchoredAddition& add,
                                 const Line& to) {
  using Values = AnchoredAddition::Values;
  const AnchoredAddition addition = add;
  const SummedColumns<double, Rows, AnchoredAddition> columns(task, task.rows + from.row, add),
      ends(task, task.rows + from.row, add);
  const Line line = to;
  const SumSegment& g = task.segments[0];
  const Index first = g.first + (Count - 2), output = g.output, length = g.length;
  [[maybe_unused]] const double zero = padded_zero(from);
  Values before;
  if constexpr (Count == 3) before = addition.lowered(ends.anywhere(first - kWide));
  const auto sums = [&](const Values& a, const Values& b) HALFULP_IN_LINE {
    const Values odds = addition.lowered(by_parts(a, b, odd<double>));
    Values v = addition.joined(by_parts(a, b, even<double>), odds);
    if constexpr (Count == 3) {
      v = addition.joined(v, by_parts(before, odds, shifted_in<Doubles>));
      before = odds;
    }
    v = addition.finished(v);
    if constexpr (Rows < 3) v.sum += all<Doubles>(zero);
    return v;
  };
  const Index inside = columns.vectors_inside(first, 2 * kWide, length / kWide) * kWide;
  Index t = 0;
  for (; t < inside; t += kWide)
    line.take_all(output + t, sums(columns.inside(first + 2 * t), columns.inside(first + 2 * t + kWide)));
  for (; t < length; t += kWide)
    line.take(output + t, sums(ends.anywhere(first + 2 * t), ends.anywhere(first + 2 * t + kWide)), length - t);
}

// Lines of such windows, of up to three rows.
class DirectLines {
 public:
  explicit DirectLines(const LineTask<double>& task) : task_(task) {
    const SumSegment& g = task.segments[0];
    const bool by_two = task.segment_count == 1 && g.output_step == 1 && g.first_step == 2 && g.step == 1;
    if (by_two && !task.slides && task.error == 0.0 && (g.count == 2 || g.count == 3)) count_ = g.count;
  }

  // The loop for three rows is the one that counts: it has no padded zeros.
  bool apply(const SumLine& line) const {
    return count_ > 0 && (line.row_count < 3 || (line.row_count == 3 && !line.padded));
  }

  // Of all cells that lines have read so far.
  void know(const MagnitudeLanes<double>& magnitudes) { anchor_.cover(magnitudes); }

  template <class Line>
  void run(const SumLine& line, const Line& to) const {
    if (line.row_count == 1) run_rows<1>(line, to);
    else if (line.row_count == 2) run_rows<2>(line, to);
    else run_rows<3>(line, to);
  }

 private:
  template <int Rows, class Line>
  void run_rows(const SumLine& line, const Line& to) const {
    if (count_ == 2) direct_by_two<2, Rows>(task_, line, anchor_.addition(), to);
    else direct_by_two<3, Rows>(task_, line, anchor_.addition(), to);
  }

  const LineTask<double>& task_;
  Index count_ = 0;
  Anchor anchor_;
};

// The other types have none.
struct NoDirectLines {
  template <class Task>
  explicit NoDirectLines(const Task&) {}
};

// A line that is not asked for.
struct NoLine {};

// Two segments whose outputs alternate: of two neighbours the first and the sum, or the sum and the second.
struct Alternating {
  Index first, output, length;  // of both together
  bool sum_first;
};

// Sums along one row of the source, which replace those along another one in `sums`: `together` gets their sums,
// `alone` the new ones.
template <class T, bool SumFirst, class Together, class Alone>
HALFULP_NOINLINE void expand_row(const LineTask<T>& task, Index row, const Alternating& g, const Sums& sums,
                                          const Together& together, const Alone& alone) {
  using Values = Held<T, Doubles>;
  const SummedColumns<T, 1> columns(task, &row), ends(task, &row);
  const Together line_together = together;
  const Alone line_alone = alone;
  const Sums kept = sums;
  const Index start = g.first + kWide, output = g.output, length = g.length;
  Values first = ends.anywhere(g.first);
  const auto give = [&](auto whole, const auto& line, Index t, const Values& v) HALFULP_IN_LINE {
    if constexpr (whole) line.take_all(output + t, v);
    else line.take(output + t, v, length - t);
  };
  const auto take = [&](auto whole, Index t, const Values& v) HALFULP_IN_LINE {
    if constexpr (!std::is_same_v<Together, NoLine>) give(whole, line_together, t, plus(get<T, Doubles>(kept, t), v));
    give(whole, line_alone, t, v);
    put(kept, t, v);
  };
  // Two vectors of outputs; all of them if `whole`.
  const auto finish = [&](auto whole, Index t, const Values& next) HALFULP_IN_LINE {
    const Values second = by_parts(first, next, shifted_by_one<double>), sum = plus(first, second);
    const Values &x = SumFirst ? sum : first, &y = SumFirst ? second : sum;
    take(whole, t, by_parts(x, y, zip_low<double>));
    if (whole || length - t > kWide) take(whole, t + kWide, by_parts(x, y, zip_high<double>));
    first = next;
  };
  const Index inside = columns.vectors_inside(start, kWide, length / (2 * kWide));
  Index n = 0;
  for (; n < inside; ++n) finish(std::true_type{}, 2 * n * kWide, columns.inside(start + n * kWide));
  for (; 2 * n * kWide < length; ++n) finish(std::false_type{}, 2 * n * kWide, ends.anywhere(start + n * kWide));
}

// Lines whose outputs alternate, of one or two rows. The second row of one line often is all that the next one has:
// then both are made together.
template <class T>
class ExpandedLines {
 public:
  explicit ExpandedLines(const LineTask<T>& task) : task_(task) {
    if (task.segment_count != 2 || task.slides || task.error > 0.0) return;
    const bool swapped = task.segments[1].output < task.segments[0].output;
    const SumSegment &a = task.segments[swapped ? 1 : 0], &b = task.segments[swapped ? 0 : 1];
    const bool sum_first = a.count == 2;
    g_ = {a.first, a.output, a.length + b.length, sum_first};
    apply_ = alternate_outputs(a, b) && a.step == 1 && b.step == 1 && a.count + b.count == 3 &&
             b.first == a.first + (sum_first ? 1 : 0);
  }

  bool apply(const SumLine& line) const { return apply_ && line.row_count <= 2 && !line.padded; }

  // Whether `next` is made with `line`.
  bool together(const SumLine& line, const SumLine& next) const {
    return line.row_count == 2 && next.row_count == 1 && row(line, 1) == row(next, 0) && line.divisor == next.divisor &&
           !next.padded;
  }

  // `next` gets the line that is made with it, or what nobody needs.
  template <class Line>
  void run(const SumLine& line, const Line& to, const Line& next) {
    if (line.row_count == 1) return expand(row(line, 0), NoLine{}, to);
    if (!known_ || row_ != row(line, 0)) expand(row(line, 0), NoLine{}, next);
    expand(row(line, 1), to, next);
  }

 private:
  Index row(const SumLine& line, Index r) const { return task_.rows[line.row + r]; }

  template <class Together, class Alone>
  void expand(Index row, const Together& together, const Alone& alone) {
    row_ = row;
    known_ = true;
    if (g_.sum_first) expand_row<T, true>(task_, row, g_, task_.sums, together, alone);
    else expand_row<T, false>(task_, row, g_, task_.sums, together, alone);
  }

  const LineTask<T>& task_;
  Alternating g_{};
  bool apply_ = false, known_ = false;
  Index row_ = 0;  // the one that task.sums holds sums along
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
