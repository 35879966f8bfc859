// Lines of averages: rows added, sums along them, quotients. See line_kernels.hpp.
#include "halfulp/line_kernels.hpp"

#include "line_values.hpp"
#include "sum_finish.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Adds `Count` rows to the row of sums, or starts it with them.
template <class T, int Count, bool Start>
void add_group(const T* source, const Index* rows, Index n, const Sums& out) {
  const T* x[Count];
  for (int r = 0; r < Count; ++r) x[r] = source + rows[r];
  for_each_vector(n, [&](auto tag, Index i) {
    using V = typename decltype(tag)::type;
    Held<T, V> v;
    if constexpr (Start)
      v = held<T, V>(widened<V>(x[0] + i));
    else
      v = plus(get<T, V>(out, i), widened<V>(x[0] + i));
    for (int r = 1; r < Count; ++r) v = plus(v, widened<V>(x[r] + i));
    put(out, i, v);
  });
}

template <class T>
void add_rows(const T* source, const Index* rows, Index count, Index n, const Sums& out) {
  switch (count) {
    case 1: return add_group<T, 1, true>(source, rows, n, out);
    case 2: return add_group<T, 2, true>(source, rows, n, out);
    case 3: return add_group<T, 3, true>(source, rows, n, out);
    default: add_group<T, 4, true>(source, rows, n, out);
  }
  Index r = 4;
  for (; r + 4 <= count; r += 4) add_group<T, 4, false>(source, rows + r, n, out);
  if (count - r == 1) add_group<T, 1, false>(source, rows + r, n, out);
  if (count - r == 2) add_group<T, 2, false>(source, rows + r, n, out);
  if (count - r == 3) add_group<T, 3, false>(source, rows + r, n, out);
}

// Brings sum and low back to high and low part of their value, so that low stays small however long a slide goes on.
template <class V>
inline Single<V> renormalised(const Single<V>& a) {
  return a;
}
template <class V>
inline Pair<V> renormalised(const Pair<V>& a) {
  return plus(Pair<V>{a.sum, a.sum - a.sum}, a.low);
}

// Subtracts one row and adds another; either may be absent.
template <class T>
void slide_row(const T* leaving, const T* entering, Index n, const Sums& out) {
  for_each_vector(n, [&](auto tag, Index i) {
    using V = typename decltype(tag)::type;
    Held<T, V> v = get<T, V>(out, i);
    if (entering != nullptr) v = plus(v, widened<V>(entering + i));
    if (leaving != nullptr) v = plus(v, V(-widened<V>(leaving + i)));
    put(out, i, renormalised(v));
  });
}

template <class T>
void slide_rows(const T* source, const Index* rows, const SumLine& line, Index n, const Sums& out) {
  const Index* leaving = rows + line.row - line.leaving;  // the rows of the line before stand next to these
  const Index* entering = rows + line.row + line.row_count - line.entering;
  const Index steps = line.leaving > line.entering ? line.leaving : line.entering;
  for (Index r = 0; r < steps; ++r)
    slide_row(r < line.leaving ? source + leaving[r] : nullptr, r < line.entering ? source + entering[r] : nullptr, n, out);
}

// The sum of `count` > 0 values of a row, `step` apart. `Count` > 0 is known at compile time.
template <class T, class V, int Count>
inline Held<T, V> cells(const Sums& in, Index at, Index count, Index step) {
  Held<T, V> v = get<T, V>(in, at);
  for (Index j = 1; j < (Count > 0 ? Count : count); ++j) v = plus(v, get<T, V>(in, at + j * step));
  return v;
}

// Along a row, windows one apart. Writes whole vectors: what it writes past its end is written again or is slack.
template <class T, int Count>
void along_by_one(const Sums& in, const SumSegment& g, const Sums& out) {
  for (Index t = 0; t < g.length; t += kWide)
    put(out, g.output + t, cells<T, Doubles, Count>(in, g.first + t, g.count, g.step));
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

#if defined(__GNUC__) || defined(__clang__)
template <class V>
inline Single<V> evens(const Single<V>& a, const Single<V>& b) { return {even<double>(a.sum, b.sum)}; }
template <class V>
inline Pair<V> evens(const Pair<V>& a, const Pair<V>& b) { return {even<double>(a.sum, b.sum), even<double>(a.low, b.low)}; }
template <class V>
inline Single<V> odds(const Single<V>& a, const Single<V>& b) { return {odd<double>(a.sum, b.sum)}; }
template <class V>
inline Pair<V> odds(const Pair<V>& a, const Pair<V>& b) { return {odd<double>(a.sum, b.sum), odd<double>(a.low, b.low)}; }
inline void put_zipped(const Sums& out, Index i, const Single<Doubles>& a, const Single<Doubles>& b) {
  put_part(out.sum + i, zip_low<double>(a.sum, b.sum));
  put_part(out.sum + i + kWide, zip_high<double>(a.sum, b.sum));
}
inline void put_zipped(const Sums& out, Index i, const Pair<Doubles>& a, const Pair<Doubles>& b) {
  put_zipped(out, i, Single<Doubles>{a.sum}, Single<Doubles>{b.sum});
  put_zipped({out.low, nullptr, nullptr}, i, Single<Doubles>{a.low}, Single<Doubles>{b.low});
}

// Windows two apart, of neighbouring values.
template <class T, int Count>
void along_by_two(const Sums& in, const SumSegment& g, const Sums& out) {
  const Index count = Count > 0 ? Count : g.count;
  for (Index t = 0; t < g.length; t += kWide) {
    Held<T, Doubles> v;
    for (Index j = 0; j < count; j += 2) {
      const Index at = g.first + 2 * t + j;
      const Held<T, Doubles> a = get<T, Doubles>(in, at), b = get<T, Doubles>(in, at + kWide);
      v = j == 0 ? evens(a, b) : plus(v, evens(a, b));
      if (j + 1 < count) v = plus(v, odds(a, b));
    }
    put(out, g.output + t, v);
  }
}

// Two segments whose outputs alternate.
template <class T, int First, int Second>
void along_alternating(const Sums& in, const SumSegment& a, const SumSegment& b, const Sums& out) {
  for (Index t = 0; t < a.length; t += kWide)
    put_zipped(out, a.output + 2 * t, cells<T, Doubles, First>(in, a.first + t, a.count, a.step),
               cells<T, Doubles, Second>(in, b.first + t, b.count, b.step));
}

template <class T>
bool alternate(const Sums& in, const SumSegment* segments, Index count, const Sums& out) {
  if (count != 2) return false;
  const bool swapped = segments[1].output < segments[0].output;
  const SumSegment &a = segments[swapped ? 1 : 0], &b = segments[swapped ? 0 : 1];
  if (a.output_step != 2 || b.output_step != 2 || b.output != a.output + 1 || a.first_step != 1) return false;
  if (b.first_step != 1 || b.length > a.length) return false;
  if (a.count == 1 && b.count == 2) along_alternating<T, 1, 2>(in, a, b, out);
  else if (a.count == 2 && b.count == 1) along_alternating<T, 2, 1>(in, a, b, out);
  else along_alternating<T, 0, 0>(in, a, b, out);
  return true;
}
#else
template <class T, int Count>
void along_by_two(const Sums& in, const SumSegment& g, const Sums& out) { along_by_any<T>(in, g, out); }
template <class T>
bool alternate(const Sums&, const SumSegment*, Index, const Sums&) { return false; }
#endif

// Long windows that overlap, by doubling: sums of 2^b neighbours come from two sums of 2^(b-1), and a window is made of
// those that the bits of its length name.
template <class T>
void along_by_doubling(const Sums& in, Index width, const SumSegment& g, const Sums& work, const Sums& out) {
  Sums current = in + g.first;
  width -= g.first;
  Index done = 0;
  for (Index power = 1;; power *= 2) {
    if ((g.count & power) != 0) {
      const Sums from = current + done * g.step;
      for (Index t = 0; t < g.length; t += kWide) {
        const Held<T, Doubles> v = get<T, Doubles>(from, t);
        put(out, g.output + t, done > 0 ? plus(get<T, Doubles>(out, g.output + t), v) : v);
      }
      done += power;
    }
    if (2 * power > g.count) return;
    width -= power * g.step;
    const Sums shifted = current + power * g.step;
    for (Index i = 0; i < width; i += kWide) put(work, i, plus(get<T, Doubles>(current, i), get<T, Doubles>(shifted, i)));
    current = work;
  }
}

// Long windows of neighbours, each on its own.
template <class T>
void along_apart(const Sums& in, const SumSegment& g, const Sums& out) {
  for (Index t = 0; t < g.length; ++t) {
    const Index at = g.first + t * g.first_step;
    Held<T, Doubles> lanes = get<T, Doubles>(in, at);
    Index j = kWide;
    for (; j + kWide <= g.count; j += kWide) lanes = plus(lanes, get<T, Doubles>(in, at + j));
    double parts[2 * kWide];
    const Sums stored{parts, parts + kWide, nullptr};
    put(stored, 0, lanes);
    Held<T, double> v = get<T, double>(stored, 0);
    for (Index i = 1; i < kWide; ++i) v = plus(v, get<T, double>(stored, i));
    for (; j < g.count; ++j) v = plus(v, get<T, double>(in, at + j));
    put(out, g.output + t * g.output_step, v);
  }
}

template <class T>
void along(const Sums& in, Index width, const SumSegment& g, const Sums& work, const Sums& out) {
  if (g.first_step == 1 && g.output_step == 1) {
    switch (g.count) {
      case 1: return along_by_one<T, 1>(in, g, out);
      case 2: return along_by_one<T, 2>(in, g, out);
      case 3: return along_by_one<T, 3>(in, g, out);
      default: break;
    }
    return g.count < 8 ? along_by_one<T, 0>(in, g, out) : along_by_doubling<T>(in, width, g, work, out);
  }
  if (g.first_step == 2 && g.output_step == 1 && g.step == 1) {
    if (g.count == 2) return along_by_two<T, 2>(in, g, out);
    if (g.count == 3) return along_by_two<T, 3>(in, g, out);
    return along_by_two<T, 0>(in, g, out);
  }
  if (g.first_step == 0 && g.length > 1) return along_repeated<T>(in, g, out);
  if (g.count >= 2 * kWide && g.step == 1) return along_apart<T>(in, g, out);
  along_by_any<T>(in, g, out);
}

// A padded zero among the terms makes a negative zero positive and changes nothing else.
inline void add_padded_zeros(double* sums, Index n) {
  for (Index i = 0; i < n; ++i) sums[i] += 0.0;
}

// n quotients; what a float64's test leaves undecided is resolved exactly.
template <class T>
void divide(const LineTask<T>& task, const Sums& sums, Index n, Index divisor, T* out) {
  const auto value = static_cast<double>(divisor);
  const SumDivisor d{value, 1.0 / value, (divisor & (divisor - 1)) == 0};
  if constexpr (std::is_same_v<T, double>) {
    const Index undecided = finish_f64_exact(sums, n, d, out, task.undecided);
    for (Index u = 0; u < undecided; ++u) {
      const Index i = task.undecided[u];
      out[i] = task.resolve(sums.sum[i], sums.low[i], divisor);
    }
  } else {
    finish_exact(sums, n, d, out, task.undecided);
  }
}

template <class T>
void divide_line(const LineTask<T>& task, const SumLine& line, const Sums& sums, T* out) {
  for (Index r = 0; r < task.run_count; ++r) {
    const typename LineTask<T>::Run& run = task.runs[r];
    if (run.empty || line.row_count == 0)
      std::memset(static_cast<void*>(out + run.begin), 0, static_cast<std::size_t>(run.end - run.begin) * sizeof(T));
    else
      divide(task, sums + run.begin, run.end - run.begin, task.divisor != 0 ? task.divisor : line.divisor * run.divisor,
             out + run.begin);
  }
}

// Takes the magnitudes of the slabs that a block's lines bring in, each once.
template <class T>
class SlabScan {
 public:
  explicit SlabScan(const LineTask<T>& task) : task_(task) {}

  void enter(const SumLine& line) {
    if (begin_ == end_) begin_ = end_ = line.first_slab;
    while (end_ < line.end_slab) take(end_++);
    while (begin_ > line.first_slab) take(--begin_);  // windows with holes may go back
  }

  LineContents contents() const { return {scan_.range(), negative_zero_}; }

 private:
  void take(Index slab) {
    for (Index r = 0; r < task_.slab_row_count; ++r) {
      const T* row = task_.source + slab * task_.slab_stride + task_.slab_rows[r] + task_.slab_column;
      scan_.take(row, task_.slab_width);
      if (task_.slides) look_for_negative_zeros(row);
    }
  }

  void look_for_negative_zeros(const T* row) {
    using F = format_of<T>;
    using Bits = typename F::bits_type;  // of one width throughout, so that the loop becomes vectors
    Bits found = 0;
    for (Index i = 0; i < task_.slab_width; ++i)
      found = static_cast<Bits>(found | static_cast<Bits>(std::bit_cast<Bits>(row[i]) == F::sign ? 1 : 0));
    negative_zero_ = negative_zero_ || found != 0;
  }

  const LineTask<T>& task_;
  MagnitudeScan<T> scan_;
  Index begin_ = 0, end_ = 0;  // the slabs that were taken
  bool negative_zero_ = false;
};

// Transposes of bins have many lines that are alike.
inline bool alike(const SumLine& a, const SumLine& b) {
  return a.row == b.row && a.row_count == b.row_count && a.divisor == b.divisor && a.padded == b.padded;
}

template <class T>
LineContents sum_lines(const LineTask<T>& task) {
  SlabScan<T> scan(task);
  const T* source = task.source + task.column;
  const auto line_bytes = static_cast<std::size_t>(task.runs[task.run_count - 1].end) * sizeof(T);
  for (Index l = 0; l < task.line_count; ++l) {
    const SumLine& line = task.lines[l];
    if (l > 0 && alike(line, task.lines[l - 1])) {
      std::memcpy(static_cast<void*>(task.out + line.out), task.out + task.lines[l - 1].out, line_bytes);
      continue;
    }
    if (line.row_count > 0) {
      scan.enter(line);
      if (task.slides && l > 0 && line.leaving + line.entering > 0)
        slide_rows(source, task.rows, line, task.width, task.row + task.margin);
      else
        add_rows(source, task.rows + line.row, line.row_count, task.width, task.row + task.margin);
      if (!alternate<T>(task.row, task.segments, task.segment_count, task.sums))
        for (Index s = 0; s < task.segment_count; ++s) along<T>(task.row, task.reach, task.segments[s], task.work, task.sums);
      for (Index p = 0; p < task.padded_count && !line.padded; ++p)
        add_padded_zeros(task.sums.sum + task.padded[p].begin, task.padded[p].end - task.padded[p].begin);
      if (line.padded) add_padded_zeros(task.sums.sum, task.runs[task.run_count - 1].end);
    }
    divide_line(task, line, task.sums, task.out + line.out);
  }
  return scan.contents();
}

// Several lanes: every window of a line adds its cells one by one, `Width` vectors of lanes at a time.
template <class T, int Width, class V>
inline void sum_window(const LineTask<T>& task, const SumLine& line, const T* cell, Index count, Index lane) {
  Held<T, V> v[Width];
  const Index* rows = task.rows + line.row;
  constexpr Index wide = static_cast<Index>(sizeof(V) / sizeof(double));
  for (int k = 0; k < Width; ++k) v[k] = held<T, V>(widened<V>(cell + rows[0] + lane + k * wide));
  for (Index r = 0; r < line.row_count; ++r) {
    for (Index j = r == 0 ? 1 : 0; j < count; ++j) {
      const T* x = cell + rows[r] + j * task.step * task.cell_stride + lane;
      for (int k = 0; k < Width; ++k) v[k] = plus(v[k], widened<V>(x + k * wide));
    }
  }
  for (int k = 0; k < Width; ++k) put(task.sums, lane + k * wide, v[k]);
}

template <class T>
void sum_lanes_of(const LineTask<T>& task, const SumLine& line, Index o) {
  const T* cell = task.source + task.first[o] * task.cell_stride;
  Index lane = 0;
  for (; lane + 4 * kWide <= task.lanes; lane += 4 * kWide) sum_window<T, 4, Doubles>(task, line, cell, task.count[o], lane);
  for (; lane + kWide <= task.lanes; lane += kWide) sum_window<T, 1, Doubles>(task, line, cell, task.count[o], lane);
  for (; lane < task.lanes; ++lane) sum_window<T, 1, double>(task, line, cell, task.count[o], lane);
  if (line.padded || task.cell_padded[o] != 0) add_padded_zeros(task.sums.sum, task.lanes);
}

template <class T>
LineContents sum_lanes(const LineTask<T>& task) {
  SlabScan<T> scan(task);
  for (Index l = 0; l < task.line_count; ++l) {
    const SumLine& line = task.lines[l];
    if (line.row_count > 0) scan.enter(line);
    for (Index r = 0; r < task.run_count; ++r) {
      const typename LineTask<T>::Run& run = task.runs[r];
      for (Index o = run.begin; o < run.end; ++o) {
        T* out = task.out + line.out + o * task.output_stride;
        if (run.empty || line.row_count == 0) {
          std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(task.lanes) * sizeof(T));
          continue;
        }
        sum_lanes_of(task, line, task.first_output + o);
        divide(task, task.sums, task.lanes, task.divisor != 0 ? task.divisor : line.divisor * run.divisor, out);
      }
    }
  }
  return scan.contents();
}

// Eight vectors of partial sums, so that additions do not wait for each other; what is added is scanned while it is in the
// first cache. The sums are held as those of H are.
template <class T, class H>
MagnitudeRange sum_all(const T* x, Index n, const Sums& out) {
  constexpr Index kParts = 8, kChunk = 1024;
  MagnitudeScan<T> scan;
  Held<H, Doubles> parts[kParts];
  for (auto& part : parts) part = held<H, Doubles>(all<Doubles>(-0.0));
  Held<H, double> sum = held<H, double>(-0.0);
  for (Index begin = 0; begin < n; begin += kChunk) {
    const Index end = begin + kChunk < n ? begin + kChunk : n;
    scan.take(x + begin, end - begin);
    Index i = begin;
    for (; i + kParts * kWide <= end; i += kParts * kWide)
      for (Index k = 0; k < kParts; ++k) parts[k] = plus(parts[k], widened<Doubles>(x + i + k * kWide));
    for (; i + kWide <= end; i += kWide) parts[0] = plus(parts[0], widened<Doubles>(x + i));
    for (; i < end; ++i) sum = plus(sum, widened<double>(x + i));
  }
  for (Index half = kParts / 2; half > 0; half /= 2)
    for (Index k = 0; k < half; ++k) parts[k] = plus(parts[k], parts[k + half]);
  double lanes[2 * kWide];
  const Sums stored{lanes, lanes + kWide, nullptr};
  put(stored, 0, parts[0]);
  for (Index i = 0; i < kWide; ++i) sum = plus(sum, get<H, double>(stored, i));
  put(out, 0, sum);
  return scan.range();
}

template <class T>
constexpr LineKernelsOf<T> kernels_of() {
  return {sum_lines<T>, sum_lanes<T>, {sum_all<T, T>, sum_all<T, double>}};
}

}  // namespace

const LineKernels& line_kernels() {
  static constexpr LineKernels table{kernels_of<Float16>(), kernels_of<BFloat16>(), kernels_of<float>(), kernels_of<double>()};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
