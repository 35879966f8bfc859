// Lines of averages: rows added, sums along them, quotients. See fast_kernels.hpp.
#include "average/fast_kernels.hpp"

#include "average/kernels/line_along.hpp"
#include "average/kernels/line_direct.hpp"
#include "average/kernels/line_values.hpp"
#include "average/kernels/short_lines.hpp"
#include "average/kernels/square_lines.hpp"
#include "average/kernels/sum_rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// As many vectors of a row as have their sums in registers.
inline constexpr int kStrip = kVectorBytes >= 32 ? 7 : 4;
inline constexpr Index kStripWide = kLanes<float>;
inline constexpr Index kNearBytes = Index{1} << 15;  // the rows of two lines stay in the first cache
inline constexpr Index kAheadBytes = Index{1} << 12;

// The same for all rows at once, several vectors of each and the last one `last` from the first, with their magnitudes.
// Asks for the cells `ahead`.
template <int Vectors>
HALFULP_NOINLINE void add_strip(const float* source, const Index* rows, Index count, Index last, Index ahead,
                             const Sums& out, MagnitudeScan<float>& scan) {
  constexpr int kParts = static_cast<int>(kStripWide / kWide);
  Doubles sums[Vectors][kParts];
  for (auto& vector : sums)
    for (Doubles& part : vector) part = all<Doubles>(-0.0);  // changes no sum, whatever its sign
  auto magnitudes = scan.lanes();
  const auto at = [&](int k) { return k + 1 < Vectors ? k * kStripWide : last; };
  for (Index r = 0; r < count; ++r) {
    const float* const x = source + rows[r];
    for (int k = 0; k < Vectors; ++k) {
      if (k * kVectorBytes % kCacheLine == 0) prefetch_cell(x + at(k), ahead);
      magnitudes.take(x + at(k));
      for (int p = 0; p < kParts; ++p) sums[k][p] += widened<Doubles>(x + at(k) + p * kWide);
    }
  }
  scan.set_lanes(magnitudes);
  for (int k = 0; k < Vectors; ++k)
    for (int p = 0; p < kParts; ++p) put(out, at(k) + p * kWide, Single<Doubles>{sums[k][p]});
}

template <int... Less>
void add_strip_of(Index vectors, std::integer_sequence<int, Less...>, const float* source, const Index* rows,
                  Index count, Index last, Index ahead, const Sums& out, MagnitudeScan<float>& scan) {
  static constexpr decltype(&add_strip<1>) strips[] = {add_strip<Less + 1>...};
  strips[vectors - 1](source, rows, count, last, ahead, out, scan);
}

// For n of at least a vector: the last one ends with the row. The next line's rows arrive while this one's are added.
inline void add_strips(const float* source, const Index* rows, Index count, Index n, const Sums& out,
                       MagnitudeScan<float>& scan) {
  constexpr Index size = sizeof(float);
  const Index next = (rows[1] - rows[0]) * count, ahead = next * size <= kNearBytes ? next : kAheadBytes / size;
  for (Index i = 0; i < n; i += kStrip * kStripWide) {
    if (n - i < kStripWide) i = n - kStripWide;
    const Index left = n - i, all = (left + kStripWide - 1) / kStripWide, vectors = all < kStrip ? all : kStrip;
    const Index last = all <= kStrip ? left - kStripWide : (vectors - 1) * kStripWide;
    add_strip_of(vectors, std::make_integer_sequence<int, kStrip>{}, source + i, rows, count, last, ahead, out + i,
                 scan);
  }
}

// A line's row of sums, from that of the line before.
template <class T>
void slide_rows(const Sums& before, const T* source, const Index* rows, const SumLine& line, Index n, const Sums& out) {
  const Index* leaving = rows + line.row - line.leaving;  // the rows of the line before stand next to these
  const Index* entering = rows + line.row + line.row_count - line.entering;
  const Index steps = line.leaving > line.entering ? line.leaving : line.entering;
  for (Index r = 0; r < steps; ++r) {
    const bool enters = r < line.entering, leaves = r < line.leaving;
    slide<T>(r == 0 ? before : out, enters, enters ? source + entering[r] : nullptr, leaves,
             leaves ? source + leaving[r] : nullptr, n, out);
  }
}

// A padded zero among the terms makes a negative zero positive and changes nothing else.
inline void add_padded_zeros(double* sums, Index n) {
  for (Index i = 0; i < n; ++i) sums[i] += 0.0;
}

// Takes the magnitudes of the slabs that a block's lines bring in, each once.
template <class T>
class SlabScan {
 public:
  explicit SlabScan(const LineTask<T>& task) : task_(task) {}

  void enter(const SumLine& line) {
    enter(line.first_slab, line.end_slab);
    ask_ahead();
  }

  // Whether the slabs that a line reads are its rows.
  bool whole_rows(const SumLine& line) const {
    return line.row_count == line.end_slab - line.first_slab && task_.slab_row_count == 1 &&
           task_.slab_width == task_.width;
  }

  // Adds the rows of a line with one look at each of them, if most of these are new; false if not.
  bool add_rows(const T* source, const SumLine& line, const Sums& out) {
    if constexpr (std::is_same_v<T, float>) {
      const Index count = line.end_slab - line.first_slab, known = begin_ == end_ ? 0 : end_ - line.first_slab;
      if (!whole_rows(line) || task_.slides || task_.width < kStripWide || count < 4 || known < 0 || 2 * known > count)
        return false;
      begin_ = begin_ == end_ || line.first_slab < begin_ ? line.first_slab : begin_;
      end_ = line.end_slab;
      add_strips(source, task_.rows + line.row, count, task_.width, out, scan_);
      return true;
    }
    return false;
  }

  MagnitudeLanes<T> magnitudes() const { return scan_.lanes(); }
  LineContents contents() const { return {scan_.range(), negative_zeros_.found()}; }

  void enter(Index first, Index end) {
    if (begin_ == end_) begin_ = end_ = first;
    if (end_ < end) {
      take(end_, end);
      ahead_ = reinterpret_cast<const char*>(task_.source + end * task_.slab_stride);
    }
    if (begin_ > first) take(first, begin_);  // windows with holes may go back
    begin_ = begin_ < first ? begin_ : first;
    end_ = end_ > end ? end_ : end;
  }

 private:
  // The slabs of the next lines arrive while these lines are made.
  void ask_ahead() {
    prefetch_bytes_for_later(ahead_, task_.ahead);
    ahead_ += task_.ahead;
  }

  void take(Index first, Index end) {
    for_each_slab_row(task_, first, end, [&](const T* row, Index n) { take_row(row, n); });
  }

  void take_row(const T* row, Index n) {
    scan_.take(row, n);
    if (task_.slides) negative_zeros_.take(row, n);
  }

  const LineTask<T>& task_;
  MagnitudeScan<T> scan_;
  Index begin_ = 0, end_ = 0;  // the slabs that were taken
  const char* ahead_ = nullptr;
  NegativeZeroScan<T> negative_zeros_;
};

// Transposes of bins have many lines that are alike.
inline bool alike(const SumLine& a, const SumLine& b) {
  return a.row == b.row && a.row_count == b.row_count && a.divisor == b.divisor && a.padded == b.padded;
}

// Neighbouring lines whose rows of sums are known and which are finished together. They have one divisor.
template <class T>
class LineBatch {
 public:
  explicit LineBatch(const LineTask<T>& task) : task_(task) {}

  // Where in task.row the row of sums of a line goes; perhaps where that of the line before was.
  Index add(const SumLine& line, T* out) {
    if (count_ == task_.batch || (count_ > 0 && line.divisor != lines_[0]->divisor)) finish();
    lines_[count_] = &line;
    outs_[count_] = out;
    return count_++ * task_.row_pitch + task_.margin;
  }

  // From the rows of sums to the outputs.
  void finish() {
    const auto at_once = [&] {
      return with_quotients([&](const auto& sink) { return along_at_once<HeldAs<T>>(task_, rows(), sink); });
    };
    if (count_ > 0 && task_.error > 0.0) {
      finish_bounded();
    } else if (count_ > 0 && (!alone() || !at_once())) {
      along<HeldAs<T>>(task_, rows());
      for (Index k = 0; k < count_; ++k) divide_line(k);
    }
    count_ = 0;
  }

  // A line for itself, straight from the source.
  void run(const DirectLines& direct, const SumLine& line, T* out) {
    start(line, out);
    if (alone()) return with_quotients([&](const auto& sink) { direct.run(line, sink.line(0)); });
    direct.run(line, KeepSums<T>{task_.sums, task_.sums_pitch}.line(0));
    divide_line(0);
  }

  // A line, and the next one if that has a position to go.
  bool run(ExpandedLines<T>& expanded, const SumLine& line, T* out, T* next_out) {
    start(line, out);
    if (!alone()) return false;
    outs_[1] = next_out == nullptr ? task_.unused : next_out;
    with_quotients([&](const auto& sink) { expanded.run(line, sink.line(0), sink.line(1)); });
    return true;
  }

 private:
  void start(const SumLine& line, T* out) {
    if (count_ > 0) finish();
    lines_[0] = &line;
    outs_[0] = out;
  }

  SumRows rows() const { return {task_.row, task_.row_pitch, count_}; }

  const SumDivisor& divisor_for(Index k, const SumRun& run) const {
    return prepared_divisor(task_, divisor_of(task_, *lines_[k], run));
  }

  // Whether one number divides all sums as soon as they are known.
  bool alone() const {
    if (task_.run_count != 1 || task_.runs[0].empty || task_.padded_count != 0) return false;
    return std::is_same_v<T, double> || divisor_for(0, task_.runs[0]).rest == 0.0;
  }

  // Calls f with the sink that divides by it, rounds and stores.
  template <class F>
  auto with_quotients(F f) {
    const SumDivisor& d = divisor_for(0, task_.runs[0]);
    if constexpr (std::is_same_v<T, double>) return f(RoundPairs{outs_, d, task_});
    else return f(RoundQuotients<T>{outs_, d});
  }

  void finish_bounded() {
    if constexpr (std::is_same_v<T, float>) {
      std::uint8_t* unsure = task_.unsure + (lines_[0] - task_.lines);
      const auto quotients = [&](const SumRun& run) {
        const SumDivisor& d = divisor_for(0, run);
        return BoundedQuotients<T>{outs_, unsure, d, task_.error * d.inverse};
      };
      if (alone() && along_at_once<HeldAs<T>>(task_, rows(), quotients(task_.runs[0]))) return;
      along<HeldAs<T>>(task_, rows());
      for (Index k = 0; k < count_; ++k) {
        for_each_run(k, [&](const Sums& sums, const SumRun& run) {
          const BoundedQuotients<T> all_lines = quotients(run);
          const auto line = all_lines.line(k);
          for (Index i = run.begin; i < run.end; i += kWide) line.take(i, get<T, Doubles>(sums, i), run.end - i);
        });
      }
    }
  }

  void divide_line(Index k) {
    for_each_run(k, [&](const Sums& sums, const SumRun& run) {
      divide(task_, sums + run.begin, run.end - run.begin, divisor_for(k, run), outs_[k] + run.begin);
    });
  }

  // f(sums of the line, run) for the runs of windows that are not empty; those of the others are zero.
  template <class F>
  void for_each_run(Index k, F f) {
    const Sums sums = task_.sums + k * task_.sums_pitch;
    for (Index p = 0; p < task_.padded_count && !lines_[k]->padded; ++p)
      add_padded_zeros(sums.sum + task_.padded[p].begin, task_.padded[p].end - task_.padded[p].begin);
    for (Index r = 0; r < task_.run_count; ++r) {
      const SumRun& run = task_.runs[r];
      if (run.empty)
        std::memset(static_cast<void*>(outs_[k] + run.begin), 0,
                    static_cast<std::size_t>(run.end - run.begin) * sizeof(T));
      else
        f(sums, run);
    }
  }

  const LineTask<T>& task_;
  Index count_ = 0;
  const SumLine* lines_[kMostBatch];
  T* outs_[kMostBatch];
};

template <class T>
LineContents sum_lines(const LineTask<T>& task) {
  if constexpr (sizeof(T) == 2)
    if (LineContents contents; sum_half_lines(task, contents)) return contents;
  SlabScan<T> scan(task);
  LineBatch<T> batch(task);
  std::conditional_t<std::is_same_v<T, double>, DirectLines, NoDirectLines> direct(task);
  ExpandedLines<T> expanded(task);
  const T* source = task.source + task.column;
  const auto line_bytes = static_cast<std::size_t>(task.runs[task.run_count - 1].end) * sizeof(T);
  Index before = 0;  // where the row of sums of the line before is
  Index first = 0;
  if constexpr (std::is_same_v<T, float>) {
    first = sum_exact_lines(task);
    if (first == 0) first = sum_square_lines(task, scan);
  }
  for (Index l = first; l < task.line_count; ++l) {
    const SumLine& line = task.lines[l];
    T* out = task.out + line.out;
    if (line.row_count == 0) {
      batch.finish();
      std::memset(static_cast<void*>(out), 0, line_bytes);
      continue;
    }
    if (l > 0 && alike(line, task.lines[l - 1])) {
      batch.finish();
      std::memcpy(static_cast<void*>(out), task.out + task.lines[l - 1].out, line_bytes);
      if (task.error > 0.0) task.unsure[l] = task.unsure[l - 1];
      continue;
    }
    if constexpr (std::is_same_v<T, double>) {
      if (direct.apply(line)) {
        scan.enter(line);
        direct.know(scan.magnitudes());
        batch.run(direct, line, out);
        continue;
      }
    }
    if (expanded.apply(line)) {
      scan.enter(line);
      const SumLine* next = l + 1 < task.line_count && expanded.together(line, task.lines[l + 1]) ? &line + 1 : nullptr;
      if (batch.run(expanded, line, out, next == nullptr ? nullptr : task.out + next->out)) {
        if (next != nullptr) scan.enter(task.lines[++l]);
        continue;
      }
    }
    const Index at = batch.add(line, out);
    const Sums row = task.row + at;
    if (!scan.add_rows(source, line, row)) {
      scan.enter(line);
      if (task.slides && l > 0 && line.leaving + line.entering > 0)
        slide_rows(task.row + before, source, task.rows, line, task.width, row);
      else
        add_rows<T>(source, task.rows + line.row, line.row_count, task.width, row);
    }
    // Sums that slide are used only if no cell is a negative zero; then none of them is one.
    if (line.padded && !task.slides) add_padded_zeros(row.sum, task.width);
    before = at;
  }
  batch.finish();
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
  for (; lane + 4 * kWide <= task.lanes; lane += 4 * kWide)
    sum_window<T, 4, Doubles>(task, line, cell, task.count[o], lane);
  for (; lane + kWide <= task.lanes; lane += kWide) sum_window<T, 1, Doubles>(task, line, cell, task.count[o], lane);
  for (; lane < task.lanes; ++lane) sum_window<T, 1, double>(task, line, cell, task.count[o], lane);
  if (line.padded || task.cell_padded[o] != 0) add_padded_zeros(task.sums.sum, task.lanes);
}

// The same for neighbouring windows of Count cells, Stride apart, that touch no padding along the line: columns are
// sums of Rows cells, and those that the next window shares are kept. Quotients are stored at once.
template <class T, int Rows, int Count, int Stride>
HALFULP_NOINLINE void slide_lanes(const LineTask<T>& task, const SumLine& line, Index begin, Index end,
                               const SumDivisor& divisor, T* to) {
  constexpr int kKept = Count - Stride;
  static_assert(kKept >= 0);
  const double inverse = divisor.high, zero = padded_zero(line);
  const Index lanes = task.lanes, stride = task.cell_stride;
  const T* rows[Rows];
  for (int r = 0; r < Rows; ++r) rows[r] = task.source + task.rows[line.row + r] + task.first[begin] * stride;
  double* const kept = task.sums.sum;
  const auto column = [&](auto tag, Index at) HALFULP_IN_LINE {
    using V = typename decltype(tag)::type;
    V v = widened<V>(rows[0] + at);
    for (int r = 1; r < Rows; ++r) v += widened<V>(rows[r] + at);
    return v;
  };
  const auto get_kept = [&](auto tag, int k, Index lane) HALFULP_IN_LINE {
    typename decltype(tag)::type v;
    std::memcpy(&v, kept + k * lanes + lane, sizeof v);
    return v;
  };
  // What the next line will bring, if windows move along both axes alike: while these sums are made, it arrives.
  const auto ask_ahead = [&]() HALFULP_IN_LINE {
    if constexpr (Rows > 1)
      for (int r = 0; r < Stride && r < Rows; ++r)
        prefetch_bytes_for_later(rows[Rows - 1 - r] + Stride * (rows[1] - rows[0]),
                                 Stride * lanes * static_cast<Index>(sizeof(T)));
  };
  for (int k = 0; k < kKept; ++k)
    for_each_vector(lanes, [&](auto tag, Index lane) {
      put_part(kept + k * lanes + lane, column(tag, k * stride + lane));
    });
  for (Index o = begin; o < end; ++o, to += task.output_stride) {
    const auto window = [&](auto tag, Index lane) HALFULP_IN_LINE {
      using V = typename decltype(tag)::type;
      V columns[Count];
      for (int k = 0; k < kKept; ++k) columns[k] = get_kept(tag, k, lane);
      for (int k = kKept; k < Count; ++k) columns[k] = column(tag, k * stride + lane);
      for (int k = 0; k < kKept; ++k) put_part(kept + k * lanes + lane, columns[k + Stride]);
      V v = columns[0];
      for (int k = 1; k < Count; ++k) v += columns[k];
      store_rounded(to + lane, V((v + all<V>(zero)) * all<V>(inverse)));
    };
    for_each_vector(lanes, window);
    ask_ahead();
    for (auto& row : rows) row += Stride * stride;
  }
}

template <class T>
using SlideLanes = void (*)(const LineTask<T>&, const SumLine&, Index, Index, const SumDivisor&, T*);

// Null where there is none: for windows as high as wide, lines with a row less, and single rows.
template <class T>
SlideLanes<T> slide_lanes_of(Index rows, Index count, Index stride) {
  static constexpr SlideLanes<T> twos[3] = {slide_lanes<T, 1, 2, 2>, slide_lanes<T, 2, 2, 2>, nullptr};
  static constexpr SlideLanes<T> threes[3] = {slide_lanes<T, 1, 3, 2>, slide_lanes<T, 2, 3, 2>,
                                              slide_lanes<T, 3, 3, 2>};
  static constexpr SlideLanes<T> threes_by_one[3] = {nullptr, slide_lanes<T, 2, 3, 1>, slide_lanes<T, 3, 3, 1>};
  if (rows > 3) return nullptr;
  if (count == 2 && stride == 2) return twos[rows - 1];
  if (count == 3 && stride == 2) return threes[rows - 1];
  return count == 3 && stride == 1 ? threes_by_one[rows - 1] : nullptr;
}

// Makes outputs of a line from o on as above; how many it made.
template <class T>
Index slide_from(const LineTask<T>& task, const SumLine& line, Index o, Index end, const SumDivisor& divisor, T* out) {
  if constexpr (std::is_same_v<T, double>) {
    return 0;
  } else {
    constexpr Index kWorth = 4;
    const Index* const first = task.first;
    if (end - o < kWorth || task.step != 1 || task.cell_padded[o] != 0 || divisor.rest != 0.0) return 0;
    const Index count = task.count[o], stride = first[o + 1] - first[o];
    const SlideLanes<T> slide = slide_lanes_of<T>(line.row_count, count, stride);
    if (slide == nullptr) return 0;
    Index stop = o + 1;
    while (stop < end && task.count[stop] == count && first[stop] - first[stop - 1] == stride &&
           task.cell_padded[stop] == 0)
      ++stop;
    if (stop - o < kWorth) return 0;
    slide(task, line, o, stop, divisor, out);
    return stop - o;
  }
}

template <class T>
LineContents sum_lanes(const LineTask<T>& task) {
  SlabScan<T> scan(task);
  for (Index l = 0; l < task.line_count; ++l) {
    const SumLine& line = task.lines[l];
    if (line.row_count > 0) scan.enter(line);
    for (Index r = 0; r < task.run_count; ++r) {
      const SumRun& run = task.runs[r];
      for (Index o = run.begin; o < run.end; ++o) {
        T* out = task.out + line.out + o * task.output_stride;
        if (run.empty || line.row_count == 0) {
          std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(task.lanes) * sizeof(T));
          continue;
        }
        const SumDivisor& divisor = prepared_divisor(task, divisor_of(task, line, run));
        const Index done =
            slide_from(task, line, task.first_output + o, task.first_output + run.end, divisor, out);
        if (done > 0) {
          o += done - 1;
          continue;
        }
        sum_lanes_of(task, line, task.first_output + o);
        divide(task, task.sums, task.lanes, divisor, out);
      }
    }
  }
  return scan.contents();
}

// Eight vectors of partial sums, so that additions do not wait for each other; magnitudes are taken on the way. The
// sums are held as those of H are. term(tag, i) is what is summed of cell i.
template <class T, class H, class Term>
HALFULP_IN_LINE inline MagnitudeRange sum_terms(const T* x, Index n, const Sums& out, const Term& term) {
  constexpr Index kParts = 8, kStep = kParts * kWide, size = sizeof(T), kCells = kCacheLine / size;
  using Lanes = MagnitudeLanes<T>;
  MagnitudeScan<T> scan;
  Lanes magnitudes = scan.lanes();
  Held<H, Doubles> parts[kParts];
  for (auto& part : parts) part = held<H, Doubles>(all<Doubles>(-0.0));
  Held<H, double> sum = held<H, double>(-0.0);
  Index i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (Index k = 0; k < kStep; k += kCells) prefetch_cell(x + i + k, kAheadBytes / size);
    for (Index k = 0; k < kStep; k += Lanes::kWidth) magnitudes.take(x + i + k);
    for (Index k = 0; k < kParts; ++k) parts[k] = plus(parts[k], term(Tag<Doubles>{}, i + k * kWide));
  }
  scan.set_lanes(magnitudes);
  scan.take(x + i, n - i);
  for (; i + kWide <= n; i += kWide) parts[0] = plus(parts[0], term(Tag<Doubles>{}, i));
  for (; i < n; ++i) sum = plus(sum, term(Tag<double>{}, i));
  for (Index half = kParts / 2; half > 0; half /= 2)
    for (Index k = 0; k < half; ++k) parts[k] = plus(parts[k], parts[k + half]);
  double lanes[2 * kWide];
  const Sums stored{lanes, lanes + kWide, nullptr};
  put(stored, 0, parts[0]);
  for (Index i = 0; i < kWide; ++i) sum = plus(sum, get<H, double>(stored, i));
  put(out, 0, sum);
  return scan.range();
}

// Sizes: the absolute values are summed.
template <class T, class H, bool Sizes>
MagnitudeRange sum_all(const T* x, Index n, const Sums& out) {
  return sum_terms<T, H>(x, n, out, [x]<class V>(Tag<V>, Index i) HALFULP_IN_LINE {
    if constexpr (Sizes) return magnitude(widened<V>(x + i));
    else return widened<V>(x + i);
  });
}

MagnitudeRange sum_with_signs(const float* signs, const float* x, Index n, const Sums& out) {
  return sum_terms<float, float>(x, n, out, [=]<class V>(Tag<V>, Index i) HALFULP_IN_LINE {
    return widened_with_sign<V>(signs + i, x + i);
  });
}

template <class T>
constexpr FastKernelsOf<T> kernels_of() {
  FastKernelsOf<T> found{};
  found.sum_lines = sum_lines<T>;
  found.sum_lanes = sum_lanes<T>;
  found.sum_all[0] = sum_all<T, T, false>;
  found.sum_all[1] = sum_all<T, double, false>;
  found.sum_sizes[0] = sum_all<T, T, true>;
  found.sum_sizes[1] = sum_all<T, double, true>;
  if constexpr (std::is_same_v<T, float>) {
    found.exact_sizes = sum_exact_sizes;
    found.exact_signed = sum_exact_signed;
    found.sum_with_signs = sum_with_signs;
  }
  return found;
}

}  // namespace

const FastKernels& fast_kernels() {
  static constexpr FastKernels table{kernels_of<Float16>(), kernels_of<BFloat16>(), kernels_of<float>(),
                                     kernels_of<double>()};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
