// Two ways to make lines without a row of sums for each. Short windows two apart come straight from the source: columns are
// added as they are needed. Where outputs of two kinds alternate, as in the transpose of the former, sums along a row of the
// source serve all lines that it belongs to. Included by line_kernels.cpp only.
#pragma once

#include "line_along.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

#if defined(__GNUC__) || defined(__clang__)
#define HALFULP_DIRECT_LINES 1

// The columns of a line as sums of its rows. Margins hold zeros.
template <class T, int Rows>
class SummedColumns {
 public:
  using Values = Held<T, Doubles>;

  SummedColumns(const LineTask<T>& task, const Index* rows)
      : margin_(task.margin), width_(task.width), before_(task.zero_before), after_(task.zero_after) {
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
    if (at + kWide <= margin_) return held<T, Doubles>(all<Doubles>(before_));
    if (at >= margin_ + width_) return held<T, Doubles>(all<Doubles>(after_));
    return partly_inside(at);
  }

 private:
  template <class Load>
  HALFULP_IN_LINE Values sum(Load load) const {
    if constexpr (Rows == 1) {
      return held<T, Doubles>(load(0));
    } else {
      Values v = both<T>(load(0), load(1));
      for (int r = 2; r < Rows; ++r) v = plus(v, load(r));
      return v;
    }
  }

  __attribute__((noinline)) Values partly_inside(Index at) const {
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
    v.sum = select(number < splat(std::int64_t{margin_}), all<Doubles>(before_), v.sum);
    v.sum = select(number >= splat(std::int64_t{margin_ + width_}), all<Doubles>(after_), v.sum);
    return v;
  }

  const T* rows_[Rows];  // where a row of sums begins
  Index margin_, width_;
  double before_, after_;
};

template <class V>
inline V shifted_in(const V& before, const V& v) {
  return shuffled<kWide - 1, 1>(before, v, std::make_integer_sequence<int, kWide>{});
}

// Windows two apart of Count = 2 or 3 neighbours. The first of three is the last of the window before.
template <class T, int Count, int Rows, class Line>
__attribute__((noinline)) void direct_by_two(const LineTask<T>& task, const SumLine& from, const Line& to) {
  using Values = Held<T, Doubles>;
  const SummedColumns<T, Rows> columns(task, task.rows + from.row), ends(task, task.rows + from.row);
  const Line line = to;
  const SumSegment& g = task.segments[0];
  const Index first = g.first + (Count - 2), output = g.output, length = g.length;
  const bool padded = from.padded;
  Values before;
  if constexpr (Count == 3) before = ends.anywhere(first - kWide);
  const auto finish = [&](Index t, const Values& a, const Values& b) HALFULP_IN_LINE {
    const Values odds = by_parts(a, b, odd<double>);
    Values v = plus(by_parts(a, b, even<double>), odds);
    if constexpr (Count == 3) {
      v = plus(v, by_parts(before, odds, shifted_in<Doubles>));
      before = odds;
    }
    if (padded) v.sum += all<Doubles>(0.0);
    line.take(output + t, v, length - t);
  };
  const Index inside = columns.vectors_inside(first, 2 * kWide, (length + kWide - 1) / kWide) * kWide;
  Index t = 0;
  for (; t < inside; t += kWide) finish(t, columns.inside(first + 2 * t), columns.inside(first + 2 * t + kWide));
  for (; t < length; t += kWide) finish(t, ends.anywhere(first + 2 * t), ends.anywhere(first + 2 * t + kWide));
}

// Lines of such windows, of up to three rows.
template <class T>
class DirectLines {
 public:
  explicit DirectLines(const LineTask<T>& task) : task_(task) {
    const SumSegment& g = task.segments[0];
    const bool by_two = task.segment_count == 1 && g.output_step == 1 && g.first_step == 2 && g.step == 1;
    if (by_two && !task.slides && task.error == 0.0 && (g.count == 2 || g.count == 3)) count_ = g.count;
  }

  bool apply(const SumLine& line) const { return count_ > 0 && line.row_count <= 3; }

  template <class Line>
  void run(const SumLine& line, const Line& to) const {
    if (line.row_count == 1) run_rows<1>(line, to);
    else if (line.row_count == 2) run_rows<2>(line, to);
    else run_rows<3>(line, to);
  }

 private:
  template <int Rows, class Line>
  void run_rows(const SumLine& line, const Line& to) const {
    if (count_ == 2) direct_by_two<T, 2, Rows>(task_, line, to);
    else direct_by_two<T, 3, Rows>(task_, line, to);
  }

  const LineTask<T>& task_;
  Index count_ = 0;
};

// A line that is not asked for.
struct NoLine {
  template <class Values>
  void take(Index, const Values&, Index) const {}
};

// Two segments whose outputs alternate: of two neighbours the first and the sum, or the sum and the second.
struct Alternating {
  Index first, output, length;  // of both together
  bool sum_first;
};

// Sums along one row of the source, which replace those along another one in `sums`: `together` gets their sums, `alone` the
// new ones.
template <class T, bool SumFirst, class Together, class Alone>
__attribute__((noinline)) void expand_row(const LineTask<T>& task, Index row, const Alternating& g, const Sums& sums,
                                          const Together& together, const Alone& alone) {
  using Values = Held<T, Doubles>;
  const SummedColumns<T, 1> columns(task, &row), ends(task, &row);
  const Together line_together = together;
  const Alone line_alone = alone;
  const Sums kept = sums;
  const Index start = g.first + kWide, output = g.output, length = g.length;
  Values first = ends.anywhere(g.first);
  const auto take = [&](Index t, const Values& v) HALFULP_IN_LINE {
    if constexpr (!std::is_same_v<Together, NoLine>)
      line_together.take(output + t, plus(get<T, Doubles>(kept, t), v), length - t);
    line_alone.take(output + t, v, length - t);
    put(kept, t, v);
  };
  const auto finish = [&](Index t, const Values& next) HALFULP_IN_LINE {
    const Values second = by_parts(first, next, shifted_by_one<double>), sum = plus(first, second);
    const Values &x = SumFirst ? sum : first, &y = SumFirst ? second : sum;
    take(t, by_parts(x, y, zip_low<double>));
    if (length - t > kWide) take(t + kWide, by_parts(x, y, zip_high<double>));
    first = next;
  };
  const Index wanted = (length + 2 * kWide - 1) / (2 * kWide);
  const Index inside = columns.vectors_inside(start, kWide, wanted);
  Index n = 0;
  for (; n < inside; ++n) finish(2 * n * kWide, columns.inside(start + n * kWide));
  for (; n < wanted; ++n) finish(2 * n * kWide, ends.anywhere(start + n * kWide));
}

// Lines whose outputs alternate, of one or two rows. The second row of one line often is all that the next one has: then both
// are made together.
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

  // `next`: nothing, or the line that is made with it.
  template <class Line, class Next>
  void run(const SumLine& line, const Line& to, const Next& next) {
    if (line.row_count == 1) return expand(row(line, 0), NoLine{}, to);
    if (!known_ || row_ != row(line, 0)) expand(row(line, 0), NoLine{}, NoLine{});
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
#endif

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
