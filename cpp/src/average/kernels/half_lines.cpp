// float16 and bfloat16, windows of up to nine cells two apart: where all cells are multiples of one power of two, and
// below 2^27 of these, their sums are integers of 32 bits, of which a vector holds twice as many as of float64.
#include "average/kernels/short_lines.hpp"

#include <cmath>

#include "average/kernels/line_values.hpp"
#include "simd/halves.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr int kMostBits = 27;  // nine times 2^27 is below 2^31

// Magnitudes, and whether there is a negative zero: as an integer that is the least of all.
template <class T>
class CellScan {
 public:
  HALFULP_NOINLINE void take(const T* x, Index n) {
    const auto* bits = reinterpret_cast<const std::uint16_t*>(x);
    constexpr Index wide = kLanes<std::uint16_t>, line = 32;  // items of a cache line
    MagnitudeLanes<T> lanes = lanes_, others;  // of every other vector, so that one need not wait for the one before
    Shorts16 least = least_, less = least_;
    const auto take = [](const Vector<std::uint16_t>& v, MagnitudeLanes<T>& to, Shorts16& min) HALFULP_IN_LINE {
      to.take(v);
      min = smaller_of_signed(min, reinterpret<Shorts16>(v));
    };
    Index i = 0;
    for (; i + 2 * line <= n; i += 2 * line) {
      prefetch_ahead(x + i);
      prefetch_ahead(x + i + line);
      for (Index k = 0; k < 2 * line; k += 2 * wide) {
        take(load(bits + i + k), lanes, least);
        take(load(bits + i + k + wide), others, less);
      }
    }
    for (; i + wide <= n; i += wide) take(load(bits + i), lanes, least);
    if (i < n) take(load_first(bits + i, n - i), others, less);
    lanes.join(others);
    lanes_ = lanes;
    least_ = smaller_of_signed(least, less);
  }

  MagnitudeRange range() const {
    MagnitudeScan<T> scan;
    scan.set_lanes(lanes_);
    return scan.range();
  }
  bool negative_zero() const {
    bool found = false;
    for (int i = 0; i < kLanes<std::uint16_t>; ++i) found = found || least_[i] == INT16_MIN;
    return found;
  }

 private:
  using Shorts16 = Vector<std::int16_t>;
  MagnitudeLanes<T> lanes_;
  Shorts16 least_{};
};

// The power of two of which all cells are multiples; false if there is none that serves.
template <class T>
bool find_unit(const MagnitudeRange& range, int& unit) {
  using F = format_of<T>;
  constexpr int kFraction = F::precision - 1;
  if (range.largest >= F::infinity) return false;
  const auto exponent = [](std::uint64_t bits) {
    const int found = static_cast<int>(bits >> kFraction);
    return found < 1 ? 1 : found;
  };
  const int top = exponent(range.largest), low = range.largest == 0 ? top : exponent(range.smallest + 1);
  unit = low - F::max_exponent - kFraction;
  return top - low + 1 + kFraction <= kMostBits && unit >= -120;
}

// Neighbouring lines of Rows rows and one divisor, and outputs begin ... end of these.
template <class T>
struct LineGroup {
  const SumLine* lines;
  Index count, begin, end;
  float scale;     // of the cells, to integers
  double inverse;  // of the divisor, in units
};

// The last row's cells of some columns as integers: the next line begins with that row.
struct KeptColumns {
  Ints first, second;
};
constexpr Index kMostKept = 64;

// The rows of a line. Positions are those in a row of sums: cells from `margin` to `limit`, zeros outside.
template <class T, int Rows>
struct HalfRows {
  const T* rows[Rows];
  Index margin, limit;
  Singles scale;
  static constexpr bool kPairs = std::is_same_v<T, BFloat16>;

  HALFULP_IN_LINE Ints integers(const Singles& x) const { return converted<Ints>(x * scale); }

  HALFULP_IN_LINE KeptColumns columns(int row, Index at) const {
    const T* const x = rows[row] + at;
    if constexpr (kPairs) {
      const Bits32 pairs = load(reinterpret_cast<const std::uint32_t*>(x));
      return {integers(first_of_pairs(pairs)), integers(second_of_pairs(pairs))};
    } else {
      return {integers(load_singles(x)), integers(load_singles(x + kSingles))};
    }
  }

  // Sums of the columns at, at + 2, ... and at + 1, at + 3, ... With `kept`, the last row goes there, and the first one
  // comes from there if `begun`.
  HALFULP_IN_LINE void phases(Index at, Ints& even, Ints& odd, KeptColumns* kept = nullptr, bool begun = false) const {
    Ints a{}, b{};
    for (int r = 0; r < Rows; ++r) {
      const KeptColumns x = r == 0 && begun ? *kept : columns(r, at);
      if (Rows > 1 && r == Rows - 1 && kept != nullptr) *kept = x;
      a += x.first;
      b += x.second;
    }
    const Singles x = reinterpret<Singles>(a), y = reinterpret<Singles>(b);  // whose shuffles are fewer
    even = kPairs ? a : reinterpret<Ints>(deinterleaved2<0>(x, y));
    odd = kPairs ? b : reinterpret<Ints>(deinterleaved2<1>(x, y));
  }

  // The same where some columns are in a margin.
  HALFULP_NOINLINE void phases_anywhere(Index at, Ints& even, Ints& odd) const {
    T cells[Rows][2 * kSingles] = {};
    const Index from = at > margin ? at : margin, to = at + 2 * kSingles < limit ? at + 2 * kSingles : limit;
    HalfRows copies = *this;
    for (int r = 0; r < Rows; ++r) {
      if (from < to) std::memcpy(cells[r] + (from - at), rows[r] + from, static_cast<std::size_t>(to - from) * 2);
      copies.rows[r] = cells[r];
    }
    copies.phases(0, even, odd);
  }

  // A vector that ends with the sum of the column at `at`.
  HALFULP_IN_LINE Ints up_to(Index at) const {
    if (at < margin) return Ints{};
    if (at - (kSingles - 1) < margin || at >= limit) return up_to_end(at);
    Ints sum{};
    for (int r = 0; r < Rows; ++r) sum += integers(load_singles(rows[r] + at - (kSingles - 1)));
    return sum;
  }
  HALFULP_NOINLINE Ints up_to_end(Index at) const {
    Ints even, odd;
    phases_anywhere(at - (2 * kSingles - 1), even, odd);
    return odd;
  }
};

// Windows of Count cells. A midpoint that is not the quotient differs from it by more than 2^-40 of it: that a product
// with 1 / n is rounded twice does not matter after sticky_floats; see error-bounds-pooling.md.
template <class T, int Count, int Rows>
HALFULP_NOINLINE void run_group(const LineTask<T>& task, const LineGroup<T>& group) {
  const LineGroup<T> g = group;
  const T* const source = task.source + task.column - task.margin;
  const Index* const row_offsets = task.rows;
  T* const outs = task.out;
  const Index start = task.segments[0].first + (Count - 2);  // the first of three is the last of the window before
  const Doubles inverse = all<Doubles>(g.inverse);
  HalfRows<T, Rows> rows{{}, task.margin, task.margin + task.width, splat(g.scale)};
  const Index room = (rows.limit - start) / 2, inside_end = room < g.end ? room : g.end;
  // Lines two rows apart share a row.
  KeptColumns kept[kMostKept];
  const bool keeps = Rows == 3 && inside_end - g.begin <= (kMostKept - 1) * kSingles;
  for (Index l = 0; l < g.count; ++l) {
    const T* const shared = l > 0 && keeps ? rows.rows[Rows - 1] : nullptr;
    for (int r = 0; r < Rows; ++r) rows.rows[r] = source + row_offsets[g.lines[l].row + r];
    const bool begun = rows.rows[0] == shared;
    KeptColumns* slot = kept;
    T* const out = outs + g.lines[l].out;
    Ints before{}, even, odd;
    if constexpr (Count == 3) before = rows.up_to(start + 2 * g.begin - 1);
    const auto windows = [&]() HALFULP_IN_LINE {
      Ints sums = even + odd;
      if constexpr (Count == 3) {
        sums += shuffled<kSingles - 1, 1>(before, odd, lane_sequence<Ints>{});
        before = odd;
      }
      return sums;
    };
    const auto put = [&](T* to, const Ints& sums) HALFULP_IN_LINE {
      store_rounded(to, first_doubles(sums) * inverse, second_doubles(sums) * inverse);
    };
    Index t = g.begin;
    if (start + 2 * t >= rows.margin) {
      const auto whole = [&](auto with) HALFULP_IN_LINE {
        for (; t + kSingles <= inside_end; t += kSingles) {
          if constexpr (with == 0) rows.phases(start + 2 * t, even, odd);
          else rows.phases(start + 2 * t, even, odd, slot++, with == 2);
          put(out + t, windows());
        }
      };
      if (!keeps) whole(std::integral_constant<int, 0>{});
      else if (begun) whole(std::integral_constant<int, 2>{});
      else whole(std::integral_constant<int, 1>{});
      if (t < inside_end && inside_end - g.begin >= kSingles) {  // some once more, so that the last ones fill a vector
        t = inside_end - kSingles;
        if constexpr (Count == 3) before = rows.up_to(start + 2 * t - 1);
        rows.phases(start + 2 * t, even, odd);
        put(out + t, windows());
        t = inside_end;
      }
    }
    for (; t < g.end; t += kSingles) {
      rows.phases_anywhere(start + 2 * t, even, odd);
      T rounded[kSingles];
      put(rounded, windows());
      std::memcpy(static_cast<void*>(out + t), rounded,
                  static_cast<std::size_t>(g.end - t < kSingles ? g.end - t : kSingles) * sizeof(T));
    }
  }
}

template <class T>
void run_lines(const LineTask<T>& task, int unit) {
  using Run = void (*)(const LineTask<T>&, const LineGroup<T>&);
  static constexpr Run kRuns[2][3] = {{run_group<T, 2, 1>, run_group<T, 2, 2>, run_group<T, 2, 3>},
                                      {run_group<T, 3, 1>, run_group<T, 3, 2>, run_group<T, 3, 3>}};
  const double step = std::ldexp(1.0, unit);
  const SumLine* const end = task.lines + task.line_count;
  for (const SumLine *line = task.lines, *next = line; line < end; line = next) {
    while (next < end && next->row_count == line->row_count && next->divisor == line->divisor) ++next;
    for (Index r = 0; r < task.run_count; ++r) {
      const SumRun& run = task.runs[r];
      const bool empty = run.empty || line->row_count == 0;
      for (const SumLine* l = line; l < next && empty; ++l)
        std::memset(static_cast<void*>(task.out + l->out + run.begin), 0,
                    static_cast<std::size_t>(run.end - run.begin) * sizeof(T));
      if (empty) continue;
      const double divisor = static_cast<double>(divisor_of(task, *line, run));
      kRuns[task.segments[0].count - 2][line->row_count - 1](
          task, {line, next - line, run.begin, run.end, static_cast<float>(1.0 / step), step / divisor});
    }
  }
}

template <class T>
bool scan_and_run(const LineTask<T>& task, LineContents& contents) {
  const SumSegment& g = task.segments[0];
  if (task.segment_count != 1 || g.output != 0 || g.output_step != 1 || g.first_step != 2 || g.step != 1) return false;
  if (task.slides || (g.count != 2 && g.count != 3)) return false;
  CellScan<T> scan;
  Index begin = 0, end = 0;  // slabs of neighbouring lines
  const auto take = [&] {
    if (begin < end) for_each_slab_row(task, begin, end, [&](const T* x, Index n) { scan.take(x, n); });
  };
  for (Index l = 0; l < task.line_count; ++l) {
    const SumLine& line = task.lines[l];
    if (line.row_count == 0) continue;
    if (line.row_count > 3 || line.first_slab < begin) return false;
    if (line.first_slab > end) {
      take();
      begin = end = line.first_slab;
    }
    end = line.end_slab > end ? line.end_slab : end;
  }
  take();
  contents = {scan.range(), false};
  int unit = 0;
  if (scan.negative_zero() || !find_unit<T>(contents.range, unit)) return false;
  run_lines(task, unit);
  return true;
}

}  // namespace

bool sum_half_lines(const LineTask<Float16>& task, LineContents& contents) { return scan_and_run(task, contents); }
bool sum_half_lines(const LineTask<BFloat16>& task, LineContents& contents) { return scan_and_run(task, contents); }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
