// float32, windows of two or three neighbours two apart, and wide ones that share nothing: sums in float64, of which
// the processor's inexact flag tells that none was rounded. No magnitudes are taken, and what neighbouring lines share
// is added once. A batch of lines is summed before any of it is divided, since quotients are rounded. Windows two apart
// also of magnitudes and of cells times signs, taken as cells are read.
#include "average/kernels/short_lines.hpp"

#include "average/kernels/line_values.hpp"
#include "simd/inexact.hpp"
#include "simd/turned.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

enum class Terms { cells, sizes, with_signs };

// A row of the source: its terms as float64.
template <Terms Kind>
struct Row {
  const float* cells;

  Row() = default;
  Row(const LineTask<float>& task, Index offset) : cells(task.source + task.column + offset) {}
  // A row that changes no sum, shifted.
  static Row none(const LineTask<float>& task, Index shift) {
    Row row;
    row.cells = task.nothing + shift;
    return row;
  }
  template <class V>
  HALFULP_IN_LINE V at(Index i) const {
    if constexpr (Kind == Terms::sizes) return magnitude(widened<V>(cells + i));
    else return widened<V>(cells + i);
  }
};

template <>
struct Row<Terms::with_signs> {
  const float *cells, *signs;

  Row() = default;
  Row(const LineTask<float>& task, Index offset)
      : cells(task.source + task.column + offset), signs(task.signs + task.column + offset) {}
  static Row none(const LineTask<float>& task, Index shift) {
    Row row;
    row.cells = task.nothing + shift;
    row.signs = task.positive + shift;
    return row;
  }
  template <class V>
  HALFULP_IN_LINE V at(Index i) const {
    return widened_with_sign<V>(signs + i, cells + i);
  }
};

// The columns of a line as sums of its rows: those that it shares with the line before, whose sums were kept, `Rows`
// of its own, and as many that it shares with the next one. Not Kept: its own only. Positions are those in a row of
// sums: cells from `margin` to `limit`, zeros outside.
template <int Rows, bool Kept, Terms Kind>
struct Columns {
  Row<Kind> own[Rows];
  Row<Kind> next[Rows];
  double* kept;
  Index margin, limit;
  double before, after;

  // The rows of its own begin at rows[0]; those that it shares with the next line follow, unless there are none.
  HALFULP_IN_LINE Columns(const LineTask<float>& task, const Index* rows, bool sharing)
      : kept(task.kept),
        margin(task.margin),
        limit(task.margin + task.width),
        before(task.zero_before),
        after(task.zero_after) {
    for (int r = 0; r < Rows; ++r) {
      own[r] = {task, rows[r] - task.margin};
      next[r] = sharing ? Row<Kind>(task, rows[Rows + r] - task.margin) : Row<Kind>::none(task, -task.margin);
    }
  }

  template <class V>
  static HALFULP_IN_LINE V sum(const Row<Kind>* rows, Index at) {
    V v = rows[0].template at<V>(at);
    for (int r = 1; r < Rows; ++r) v += rows[r].template at<V>(at);
    return v;
  }

  template <class V>
  HALFULP_IN_LINE V inside(Index at) const {
    const V v = sum<V>(own, at);
    if constexpr (!Kept) {
      return v;
    } else {
      V shared;
      std::memcpy(&shared, kept + at, sizeof shared);
      const V added = sum<V>(next, at);
      put_part(kept + at, added);
      return (v + shared) + added;
    }
  }

  // For what the next lines bring in, n columns wide.
  HALFULP_IN_LINE void ask_ahead(Index at, Index n) const {
    for (Index i = at; i < at + n; i += 64 / static_cast<Index>(sizeof(float)))
      for (int r = 0; r < Rows; ++r) {
        prefetch_ahead(own[r].cells + i);
        if constexpr (Kept) prefetch_ahead(next[r].cells + i);
      }
  }

  double one(Index at) const { return at < margin ? before : at >= limit ? after : inside<double>(at); }

  HALFULP_NOINLINE Doubles anywhere(Index at) const {
    Doubles v;
    for (int lane = 0; lane < kWide; ++lane) v[lane] = one(at + lane);
    return v;
  }
};

template <int Count, int Rows, bool Kept, Terms Kind>
HALFULP_NOINLINE void sum_line(const LineTask<float>& task, const Index* rows, bool sharing, double* to) {
  const Columns<Rows, Kept, Kind> columns(task, rows, sharing), ends(task, rows, sharing);
  const SumSegment& g = task.segments[0];
  const Index start = g.first + (Count - 2), length = g.length;
  double* const out = to + g.output;
  [[maybe_unused]] Doubles before{};  // its first lane is the last odd column
  if constexpr (Count == 3) before = splat(ends.one(start - 1));
  const auto windows = [&](Index t, const Doubles& a, const Doubles& b) HALFULP_IN_LINE {
    const Doubles odds = phase_of_two<1>(a, b);
    Doubles v = in_order(Doubles(phase_of_two<0>(a, b) + odds));
    if constexpr (Count == 3) {
      const Doubles turned = turned_in_order(odds);
      v += with_first_of(turned, before);
      before = turned;
    }
    perform(Doubles(v * splat(3.0)));  // exact if one bit is to spare, see finish_exact
    put_part(out + t, v);
  };
  const Index room = (columns.limit - start) / 2, inside = room < length ? room : length;
  Index t = 0;
  const auto inside_at = [&](Index t) HALFULP_IN_LINE {
    const Index at = start + 2 * t;
    windows(t, columns.template inside<Doubles>(at), columns.template inside<Doubles>(at + kWide));
  };
  if (start >= columns.margin) {
    for (; t + 2 * kWide <= inside; t += 2 * kWide) {
      columns.ask_ahead(start + 2 * t, 4 * kWide);
      inside_at(t);
      inside_at(t + kWide);
    }
    for (; t + kWide <= inside; t += kWide) {
      columns.ask_ahead(start + 2 * t, 2 * kWide);
      inside_at(t);
    }
  }
  for (; t < length; t += kWide)
    windows(t, ends.anywhere(start + 2 * t), ends.anywhere(start + 2 * t + kWide));
}

// Windows of any number of vectors of neighbours that share nothing. A row's part of their sums, lane by lane, windows
// next to each other.
template <bool Start>
HALFULP_NOINLINE void add_bins(const float* row, const SumSegment& segment, double* sums) {
  const SumSegment g = segment;
  for (Index t = 0; t < g.length; ++t, row += g.first_step) {
    Doubles v = widened<Doubles>(row);
    Index k = kWide;
    for (; k + 3 * kWide <= g.count; k += 3 * kWide)
      v += (widened<Doubles>(row + k) + widened<Doubles>(row + k + kWide)) + widened<Doubles>(row + k + 2 * kWide);
    for (; k < g.count; k += kWide) v += widened<Doubles>(row + k);
    if constexpr (!Start) v += load(sums + t * kWide);
    put_part(sums + t * kWide, v);
  }
}

// The sums of a line of such windows. Rows are read in the order of memory.
HALFULP_NOINLINE inline void sum_bins(const LineTask<float>& task, const SumLine& line, double* to) {
  const SumSegment& g = task.segments[0];
  double* const lanes = task.kept;
  for (Index r = 0; r < line.row_count; ++r) {
    const float* const row = task.source + task.column + task.rows[line.row + r] + g.first - task.margin;
    for (Index i = 0; i < task.width; i += 64 / static_cast<Index>(sizeof(float))) prefetch_ahead(row + i);
    (r == 0 ? add_bins<true> : add_bins<false>)(row, g, lanes);
  }
  for (Index t = 0; t < g.length; ++t) {
    double v = lanes[t * kWide];
    for (Index lane = 1; lane < kWide; ++lane) v += lanes[t * kWide + lane];
    perform(v * 3.0);  // as in sum_line
    to[g.output + t] = v;
  }
}

template <Terms Kind>
class ExactLines {
 public:
  explicit ExactLines(const LineTask<float>& task) : task_(task), batch_(task.exact_batch) {
    const SumSegment& g = task.segments[0];
    if (task.segment_count != 1 || g.output_step != 1 || g.step != 1 || task.slides || task.error != 0.0) return;
    by_two_ = g.first_step == 2 && (g.count == 2 || g.count == 3);
    const Index end = g.first + (g.length - 1) * g.first_step + g.count;
    bins_ = Kind == Terms::cells && g.count >= kWide && g.count % kWide == 0 && g.first >= task.margin &&
            end <= task.margin + task.width && (g.first_step >= g.count || g.length == 1);
  }

  bool apply() const { return by_two_ || bins_; }

  Index run() {
    Index done = 0;
    while (done < task_.line_count) {
      const Index end = done + batch_ < task_.line_count ? done + batch_ : task_.line_count;
      flag_.lower();
      Index l = done;
      while (l < end && sum(l, task_.exact + (l - done) * task_.sums_pitch)) ++l;
      if (flag_.raised()) return done;
      for (Index k = done; k < l; ++k)
        if (!divide(task_.lines[k], task_.exact + (k - done) * task_.sums_pitch)) return done;
      done = l;
      if (l < end) return done;
    }
    return done;
  }

 private:
  // The sums of a line; false if it is of no kind that is known here.
  bool sum(Index l, double* to) {
    const SumLine& line = task_.lines[l];
    if (bins_) {
      if (line.row_count > 0) sum_bins(task_, line, to);
      return line.row_count > 0;
    }
    const Index own = line.row_count - line.shared, rows = line.shared > line.sharing ? line.shared : line.sharing;
    if (rows == 0) {
      switch (task_.segments[0].count == 2 ? own : -own) {
        case 1: return sum_alone<2, 1>(line, to);
        case 2: return sum_alone<2, 2>(line, to);
        case 4: return sum_alone<2, 4>(line, to);
        case -1: return sum_alone<3, 1>(line, to);
        default: return false;
      }
    }
    const bool known = own == rows ? line.sharing == 0 : own == 2 * rows;
    if (task_.segments[0].count != 3 || !known || (line.shared != 0 && line.shared != rows) ||
        (line.sharing != 0 && line.sharing != rows))
      return false;
    switch (rows) {
      case 1: return sum_sharing<1>(l, to);
      case 2: return sum_sharing<2>(l, to);
      case 3: return sum_sharing<3>(l, to);
      default: return false;
    }
  }

  template <int Count, int Rows>
  bool sum_alone(const SumLine& line, double* to) const {
    sum_line<Count, Rows, false, Kind>(task_, task_.rows + line.row, false, to);
    return true;
  }

  template <int Rows>
  bool sum_sharing(Index l, double* to) {
    const SumLine& line = task_.lines[l];
    const Index* const rows = task_.rows + line.row;
    if (line.shared == 0 || l != next_) keep<Rows>(line.shared == 0 ? nullptr : rows);
    sum_line<3, Rows, true, Kind>(task_, rows + line.shared, line.row_count > line.shared + Rows, to);
    next_ = l + 1;
    return true;
  }

  // The sums of rows as if a line before had left them; none: zeros that change no sum.
  template <int Rows>
  HALFULP_NOINLINE void keep(const Index* rows) const {
    double* const kept = task_.kept + task_.margin;
    for_each_vector(task_.width, [&](auto tag, Index i) {
      using V = typename decltype(tag)::type;
      V v = all<V>(-0.0);
      for (int r = 0; r < Rows && rows != nullptr; ++r)
        v += Row<Kind>(task_, rows[r]).template at<V>(i);
      put_part(kept + i, v);
    });
  }

  // The outputs of a line; false if one of its sums is not finite.
  bool divide(const SumLine& line, double* sums) const {
    if (line.padded) add_zeros(sums, 0, task_.runs[task_.run_count - 1].end);
    for (Index p = 0; p < task_.padded_count && !line.padded; ++p)
      add_zeros(sums, task_.padded[p].begin, task_.padded[p].end);
    double unfinished = 0.0;
    for (Index r = 0; r < task_.run_count; ++r) {
      const SumRun& run = task_.runs[r];
      float* const out = task_.out + line.out + run.begin;
      if (run.empty)
        std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(run.end - run.begin) * sizeof(float));
      else
        unfinished += divide_run(sums + run.begin, run.end - run.begin,
                                 prepared_divisor(task_, divisor_of(task_, line, run)), out);
    }
    return unfinished == 0.0;
  }

  // A padded zero among the terms makes a negative zero positive and changes nothing else.
  static void add_zeros(double* sums, Index begin, Index end) {
    for (Index i = begin; i < end; ++i) sums[i] += 0.0;
  }

  // NaN if one of the sums is not finite, else 0.
  static double divide_run(const double* sums, Index n, const SumDivisor& d, float* out) {
    const SumDivisor divisor = d;
    Doubles finite{};
    Index i = 0;
    for (; i + kWide <= n; i += kWide) {
      const Doubles v = load(sums + i);
      finite += v * splat(0.0);
      store_rounded(out + i, quotient(v, divisor));
    }
    double found = 0.0;
    for (int lane = 0; lane < kWide; ++lane) found += finite[lane];
    for (; i < n; ++i) {
      found += sums[i] * 0.0;
      store_rounded(out + i, quotient(sums[i], divisor));
    }
    return found;
  }

  const LineTask<float>& task_;
  Index batch_, next_ = -1;  // the line that task.kept was made for
  bool by_two_ = false, bins_ = false;
  InexactFlag flag_;
};

}  // namespace

Index sum_exact_lines(const LineTask<float>& task) {
  ExactLines<Terms::cells> lines(task);
  return lines.apply() ? lines.run() : 0;
}

bool sum_exact_sizes(const LineTask<float>& task) {
  ExactLines<Terms::sizes> lines(task);
  return lines.apply() && lines.run() == task.line_count;
}

bool sum_exact_signed(const LineTask<float>& task) {
  ExactLines<Terms::with_signs> lines(task);
  return lines.apply() && lines.run() == task.line_count;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
