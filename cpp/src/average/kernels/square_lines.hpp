// float32, windows of two by two or three by three neighbours one apart. Every row of the source is summed along once;
// its sums are kept for the lines that it belongs to, two of which are made together. Included by fast_kernels.cpp
// only.
#pragma once

#include "average/kernels/line_values.hpp"
#include "simd/turned.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

inline constexpr Index kScannedCells = 2048;  // whose magnitudes are taken at once: they stay in the first cache

template <int Count>
class SquareLines {
 public:
  explicit SquareLines(const LineTask<float>& task)
      : task_(task),
        length_(task.segments[0].length),
        lead_(task.margin - task.segments[0].first),
        cells_at_end_(task.margin + task.width - task.segments[0].first - length_),
        before_(all<Doubles>(task.zero_before)),
        after_(all<Doubles>(task.zero_after)),
        inverse_(task.exact),
        kept_{task.sums.sum, task.work.sum} {}

  bool apply() const {
    const SumSegment& g = task_.segments[0];
    return g.count == Count && g.step == 1 && g.first_step == 1 && g.output_step == 1 && g.output == 0 &&
           length_ == task_.runs[task_.run_count - 1].end && length_ >= kWide &&
           task_.width >= kWide && (lead_ == 0 || lead_ == 1) &&
           (cells_at_end_ == Count - 1 || cells_at_end_ == Count - 2) && !task_.slides && task_.error == 0.0 &&
           task_.padded_count == 0 && task_.slab_row_count == 1 && task_.slab_width == task_.width;
  }

  // Makes the first lines, as many as have such windows.
  template <class Scan>
  Index run(Scan& scan) {
    if (!find_top()) return 0;
    const Index step = kScannedCells / task_.width > 2 ? kScannedCells / task_.width : 2;
    Index scanned = 0, l = 0;
    while (l < task_.line_count && fits(l) && prepare_divisors(task_.lines[l])) {
      const SumLine& line = task_.lines[l];
      const bool two = l + 1 < task_.line_count && fits(l + 1) && entire_below(l + 1) &&
                       task_.lines[l + 1].divisor == line.divisor;
      if (l + two >= scanned) {
        scanned = l + step < task_.line_count ? l + step : task_.line_count;
        scan.enter(line.first_slab, task_.lines[scanned - 1].end_slab);
      }
      if (l == 0) begin(line);
      if (two) sum_two(line, task_.lines[l + 1]);
      else if (entire_below(l)) sum_one(line, [&](const auto& use) { walk<1>({last_row(line)}, use); });
      else sum_one(line, [&](const auto& use) { repeat(padded_zero(line), use); });
      l += two ? 2 : 1;
    }
    return l;
  }

 private:
  // Where the windows of line 0 begin, perhaps above the source; false if none of the first lines has all of its rows.
  bool find_top() {
    for (Index l = 0; l < Count && l < task_.line_count; ++l)
      if (task_.lines[l].row_count == Count) {
        top_ = task_.lines[l].first_slab - l;
        return true;
      }
    return false;
  }
  // Line l has all rows of its window that the source has: those one below the ones of the line before.
  bool fits(Index l) const {
    const SumLine& line = task_.lines[l];
    const Index begin = top_ + l > 0 ? top_ + l : 0, below = top_ + l + Count;
    const Index end = below < task_.slab_count ? below : task_.slab_count;
    return begin < end && line.row_count == end - begin && line.first_slab == begin && line.end_slab == end;
  }
  bool entire_below(Index l) const { return task_.lines[l].end_slab == top_ + l + Count; }

  // The inverses of the divisors of a line's outputs; false if one of them needs a second part.
  bool prepare_divisors(const SumLine& line) {
    if (prepared_ == line.divisor) return true;
    for (Index r = 0; r < task_.run_count; ++r) {
      const SumRun& run = task_.runs[r];
      if (run.empty) return false;
      const SumDivisor& d = prepared_divisor(task_, divisor_of(task_, line, run));
      if (d.rest != 0.0) return false;
      for (Index i = run.begin; i < run.end; ++i) inverse_[i] = d.high;
    }
    prepared_ = line.divisor;
    return true;
  }

  const float* row(const SumLine& line, Index r) const {
    return task_.source + task_.column + task_.rows[line.row + r];
  }
  const float* last_row(const SumLine& line) const { return row(line, line.row_count - 1); }

  // The sums along all rows of the first line but the last one; above the source, zeros.
  HALFULP_NOINLINE void begin(const SumLine& line) const {
    const Index above = line.first_slab - top_;
    for (Index r = 0; r + 1 < Count; ++r) {
      double* const to = kept_[r];
      const auto keep = [&](Index t, const Doubles(&v)[1], auto) HALFULP_IN_LINE { put_part(to + t, v[0]); };
      if (r < above || r >= above + line.row_count) repeat(padded_zero(line), keep);
      else walk<1>({row(line, r - above)}, keep);
    }
  }

  // use(t, sums, is_last) for all outputs, a vector at a time; the last one may begin before the one before it ends.
  // Columns are those of the windows: cells from `lead_` on.
  template <int Rows, class Use>
  HALFULP_IN_LINE void walk(const float* const (&rows)[Rows], const Use& use) const {
    const Index lead = lead_, length = length_, width = task_.width, last = length - kWide;
    const Doubles before = before_, after = after_;
    const float* x[Rows];  // column 0
    Doubles first[Rows], sums[Rows];
    for (int r = 0; r < Rows; ++r) {
      x[r] = rows[r] - lead;
      const Doubles cells = widened<Doubles>(rows[r]);
      first[r] = lead == 0 ? cells : shifted<kWide - 1>(before, cells);
    }
    Index t = 0;
    for (; t + 2 * kWide <= width + lead; t += kWide) {
      for (int r = 0; r < Rows; ++r) {
        sums[r] = neighbours(first[r], widened<Doubles>(x[r] + t + Count - 1));
        first[r] = widened<Doubles>(x[r] + t + kWide);
      }
      use(t, sums, std::false_type{});
    }
    if (t + kWide < length) {  // the cells of this one end before the row does
      for (int r = 0; r < Rows; ++r) {
        sums[r] = first[r];
        for (int k = 1; k < Count; ++k) sums[r] += widened<Doubles>(x[r] + t + k);
      }
      use(t, sums, std::false_type{});
    }
    if (t >= length) return;
    for (int r = 0; r < Rows; ++r) {
      const Doubles cells = widened<Doubles>(rows[r] + width - kWide);
      const Doubles end = cells_at_end_ == 0   ? after
                          : cells_at_end_ == 1 ? shifted<kWide - 1>(cells, after)
                                               : shifted<kWide - 2>(cells, after);
      const Doubles begin = t == last ? first[r] : widened<Doubles>(x[r] + last);
      sums[r] = neighbours(begin, Count > kWide ? end : shifted<(Count - 1) % kWide>(begin, end));
    }
    use(last, sums, std::true_type{});
  }

  // The same for a row of which every window has the sum x.
  template <class Use>
  HALFULP_IN_LINE void repeat(double x, const Use& use) const {
    const Doubles sums[1] = {all<Doubles>(x)};
    const Index length = length_;
    for (Index t = 0; t < length - kWide; t += kWide) use(t, sums, std::false_type{});
    use(length - kWide, sums, std::true_type{});
  }

  template <int Start>
  static HALFULP_IN_LINE Doubles shifted(const Doubles& a, const Doubles& b) {
    return shuffled<Start, 1>(a, b, std::make_integer_sequence<int, kWide>{});
  }
  // Given the first and the last column of each window.
  static HALFULP_IN_LINE Doubles neighbours(const Doubles& first, const Doubles& last) {
    if constexpr (Count == 2) return first + last;
    else return (first + last) + between(first, last);
  }

  // What was kept of the rows at t. The last vector may begin where another one has already put what follows.
  struct Kept {
    double *first, *second;
    Doubles first_at_last, second_at_last;

    template <bool Last>
    HALFULP_IN_LINE Doubles get_first(Index t) const { return Last ? first_at_last : load(first + t); }
    template <bool Last>
    HALFULP_IN_LINE Doubles get_second(Index t) const { return Last ? second_at_last : load(second + t); }
  };
  HALFULP_IN_LINE Kept kept() const {
    const Index last = length_ - kWide;
    return {kept_[0], kept_[1], load(kept_[0] + last), load(kept_[1] + last)};
  }

  template <class Walk>
  HALFULP_NOINLINE void sum_one(const SumLine& line, const Walk& walk) const {
    const Kept k = kept();
    const double* const inverse = inverse_;
    float* const out = task_.out + line.out;
    walk([&]<class Last>(Index t, const Doubles(&v)[1], Last) HALFULP_IN_LINE {
      Doubles sum = k.template get_first<Last::value>(t);
      if constexpr (Count == 3) {
        const Doubles second = k.template get_second<Last::value>(t);
        put_part(k.first + t, second);
        put_part(k.second + t, v[0]);
        sum += second;
      } else {
        put_part(k.first + t, v[0]);
      }
      store_rounded(out + t, Doubles((sum + v[0]) * load(inverse + t)));
    });
  }

  HALFULP_NOINLINE void sum_two(const SumLine& line, const SumLine& next) const {
    const Kept k = kept();
    const double* const inverse = inverse_;
    float *const out = task_.out + line.out, *const next_out = task_.out + next.out;
    const auto use = [&]<class Last>(Index t, const Doubles(&v)[2], Last) HALFULP_IN_LINE {
      Doubles both = v[0];
      if constexpr (Count == 3) both += k.template get_second<Last::value>(t);
      const Doubles sum = k.template get_first<Last::value>(t) + both, next_sum = both + v[1], by = load(inverse + t);
      put_part(k.first + t, v[Count == 3 ? 0 : 1]);
      if constexpr (Count == 3) put_part(k.second + t, v[1]);
      store_rounded(out + t, Doubles(sum * by));
      store_rounded(next_out + t, Doubles(next_sum * by));
    };
    walk<2>({row(next, next.row_count - 2), last_row(next)}, use);
  }

  const LineTask<float>& task_;
  Index length_, lead_, cells_at_end_, top_ = 0, prepared_ = -1;
  Doubles before_, after_;
  double* inverse_;
  double* kept_[2];
};

// How many of the first lines were made.
template <class Scan>
Index sum_square_lines(const LineTask<float>& task, Scan& scan) {
  if (task.segment_count != 1) return 0;  // there is none if all windows lie in the padding
  SquareLines<2> twos(task);
  if (twos.apply()) return twos.run(scan);
  SquareLines<3> threes(task);
  return threes.apply() ? threes.run(scan) : 0;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
