// Rows that lie in memory one after the other. For kernels only.
#pragma once

#include "softmax/kernels/precise.hpp"
#include "softmax/kernels/quick.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The largest and the smallest number of a row; a NaN may be missed.
struct Range {
  double top, least;
};
inline Range range_of(const float* x, Index n) {
  using V = Vector<float>;
  constexpr Index width = kLanes<float>;
  const double first = number(x[0]);
  Range found{first, first};
  Index at = 0;
  if (n >= 2 * width) {
    V top[2] = {load(x), load(x + width)}, least[2] = {top[0], top[1]};
    for (at = 2 * width; at + 2 * width <= n; at += 2 * width)
      for (int j = 0; j < 2; ++j) {
        const V v = load(x + at + j * width);
        top[j] = max_first(top[j], v);
        least[j] = v < least[j] ? v : least[j];
      }
    found.top = static_cast<double>(largest_lane(max_first(top[0], top[1])));
    found.least = -static_cast<double>(largest_lane(max_first(V(-least[0]), V(-least[1]))));
  }
  for (; at < n; ++at) {
    const double v = number(x[at]);
    found.top = v > found.top ? v : found.top;
    found.least = v < found.least ? v : found.least;
  }
  return found;
}

// e of vectors of cells: zero far below the top. A NaN is not far.
template <bool far, int count>
HALFULP_ALWAYS_INLINE void exponentials_below(Doubles (&d)[count]) {
  if constexpr (!far) return exponentials_of(d);
  const Doubles floor = splat(kLowest);
  Doubles e[count];
  for (int j = 0; j < count; ++j) e[j] = max_first(d[j], floor);  // a NaN stays
  exponentials_of(e);
  for (int j = 0; j < count; ++j) d[j] = select(d[j] < floor, Doubles{}, e[j]);
}

// The sum of a row without one cell.
inline double sum_without(double* e, Index n, Index cell) {
  const double own = e[cell];
  e[cell] = 0.0;
  VectorPair total{};
  Doubles sums[kChains]{};
  in_chains<kChains>(
      n, [&](int chain, const auto& read) HALFULP_INLINE_LAMBDA { sums[chain] += read(e, 0.0); },
      [&]() HALFULP_INLINE_LAMBDA {
        total = with(total, Doubles((sums[0] + sums[1]) + (sums[2] + sums[3])));
        for (Doubles& sum : sums) sum = Doubles{};
      });
  e[cell] = own;
  return lane_sum(total);
}
// The same without the largest cell's exponential, which is 1.
inline double sum_without_top(double* e, Index n) {
  Index top_at = 0;
  while (e[top_at] != 1.0) ++top_at;
  return sum_without(e, n, top_at);
}

// The sum of e t, or of t, with no more additions of a number than exponentials() has, and the largest magnitude of t.
// If a number is not finite, neither is the sum.
struct Products {
  double sum, most;
};
template <bool plain>
HALFULP_ALWAYS_INLINE Products products_of(const double* e, const float* t, Index n) {
  using Bits = Vector<std::uint32_t>;
  constexpr Index step = kChains * kWide;
  VectorPair total{};
  Doubles term{}, most{};
  Bits large[2]{};
  const Bits sign = splat(~std::uint32_t{0} >> 1);
  Index at = 0;
  while (at + step <= n) {
    const Index left = (n - at) / step, steps = left < kSteps ? left : kSteps;
    for (const Index stop = at + steps * step; at < stop; at += step) {
      Doubles sums[2]{};
      for (int i = 0; i < kChains; ++i) {
        const Doubles own = load_doubles(t + at + i * kWide);
        if constexpr (plain) sums[i / 2] += own;
        else sums[i / 2] = multiply_add(load(e + at + i * kWide), own, sums[i / 2]);
      }
      term += sums[0] + sums[1];
      for (int i = 0; i < 2; ++i) {
        const Bits bits = load(reinterpret_cast<const std::uint32_t*>(t + at + 2 * i * kWide));
        large[i] = larger(large[i], Bits(bits & sign));
      }
    }
    total = with(total, term);
    term = Doubles{};
  }
  if (at < n) {
    const auto add = [&](const auto& read) HALFULP_INLINE_LAMBDA {
      const Doubles own = read(t, 0.0);
      most = max_first(most, magnitude(own));
      if constexpr (plain) term += own;
      else term = multiply_add(load(e + read.at), own, term);
    };
    for (; at + kWide <= n; at += kWide) add(WholeVector{at});
    if (at < n) add(FirstItems{at, n - at});
    total = with(total, term);
  }
  const double first = number(std::bit_cast<float>(largest_bits(larger(large[0], large[1]))));
  const double last = largest_lane(most);
  return {lane_sum(total), last > first ? last : first};
}

// `reads_kept`: the exponentials are those that the value's row has kept.
template <Kind kind, bool reads_kept = false>
class QuickRow {
  static constexpr bool kTangents = !is_value(kind);
  static constexpr bool kPlainSum = kind == Kind::log_cotangent;
  static constexpr bool kNeedsExponentials = kind != Kind::log_value && kind != Kind::log_tangent;

 public:
  // e: room for the exponentials, up to whole vectors.
  QuickRow(const SoftmaxProblem& p, const float* x, const float* t, Index start, float* results, double* e)
      : p_(p), x_(x), t_(t), start_(start), results_(results), n_(p.length), e_(e) {}

  // False if double cannot be trusted with this row; else `undecided` has the cells that are left.
  bool run(Cells& undecided) {
    RowForm form;
    if (!find(form)) return false;
    put(form, undecided);
    if constexpr (kind == Kind::derivative)
      if (least_ == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n_; ++i)
          if (number(x_[i]) == -std::numeric_limits<double>::infinity()) put_as(p_.dtype, 0.0, p_.out, start_ + i);
    return true;
  }
  // The coefficients of the row; its exponentials are in their place then.
  bool find(RowForm& form) {
    if (!sum_up()) return false;
    RowSums& sums = sums_;
    if constexpr (kind == Kind::log_value) {
      const bool close = sums.total < 1.125;  // taking the 1 off would cancel
      sums.rest = close ? sum_without_top(e_, n_) : sums.total - 1.0;
      sums.size = close ? sums.rest : sums.total;
    }
    if constexpr (kTangents) {  // a bound of the sum of magnitudes; check() sums them
      sums.size = size_of_sums<kind>(most_, sums.total, n_);
      rough_ = true;
    }
    form = row_form<kind>(sums, n_);
    return form.good;
  }
  double least() const { return least_; }
  // What is kept of the row, see kKeptHead.
  void keep(double* head) const {
    head[0] = sums_.top;
    head[1] = sums_.least;
    head[2] = summed_ ? sums_.total : std::numeric_limits<double>::quiet_NaN();
  }
  void put(const RowForm& form, Cells& undecided) {
    form_ = VectorForm(form);
    const RowBound<kind> bound(form, form.top - least_, most_);
    if (!bound.good) intervals(0, n_, undecided);
    else if constexpr (is_value(kind)) values(bound, undecided);
    else derivatives(bound, undecided);
    if (is_half(p_.dtype))
      narrow_floats(p_.dtype, results_, n_, p_.out, start_, [&](Index i) { one(i, undecided); });
  }

 private:
  // Every sum but that of magnitudes; false if there is none.
  bool sum_up() {
    if constexpr (reads_kept) {
      const double* const head = e_ - kKeptHead;
      sums_ = RowSums{head[0], head[1], head[2], 0, 0, 0};
      least_ = sums_.least;
      if (std::isnan(sums_.total)) return false;
      const Products found = products_of<kPlainSum>(e_, t_, n_);
      sums_.product = found.sum;
      most_ = found.most;
      return true;
    } else {
      const Range range = range_of(x_, n_);
      least_ = range.least;
      sums_ = RowSums{range.top, range.least, 0, 0, 0, 0};
      if (!(std::fabs(range.top) < std::numeric_limits<double>::infinity())) return false;
      if (range.top - range.least <= -kLowest && n_ % kWide == 0) exponentials<false>(sums_);
      else exponentials<true>(sums_);
      if constexpr (kTangents) most_ = largest_magnitude(t_, n_);
      return summed_ = std::isfinite(sums_.total);
    }
  }
  template <bool far>
  void exponentials(RowSums& found) {
    const Doubles top = splat(found.top);
    VectorPair total{}, products{};
    Doubles sum{}, term{};
    const float *const x = x_, *const t = t_;
    double* const e = e_;
    const auto flush = [&]() HALFULP_INLINE_LAMBDA {
      total = with(total, sum);
      if constexpr (kTangents) products = with(products, term);
      sum = term = Doubles{};
    };
    // Vectors are added to each other before the chain: no number meets more than kLongest additions.
    const auto add = [&](auto... reads) HALFULP_INLINE_LAMBDA {
      constexpr int count = sizeof...(reads);
      Doubles d[count] = {Doubles(reads(x, -std::numeric_limits<double>::infinity()) - top)...};
      exponentials_below<far>(d);
      int next = 0;
      (store(e + reads.at, d[next++]), ...);  // the scratch has room for a whole vector
      if constexpr (kPlainSum) {
        term += (reads(t, 0.0) + ...);
      } else if constexpr (kTangents) {
        Doubles product{};
        next = 0;
        ((product = multiply_add(d[next++], reads(t, 0.0), product)), ...);
        term += product;
      }
      if constexpr (count == 4) sum += (d[0] + d[1]) + (d[2] + d[3]);
      else sum += d[0];
    };
    Index at = 0;
    while (at + kChains * kWide <= n_) {
      const Index left = (n_ - at) / (kChains * kWide), steps = left < kSteps ? left : kSteps;
      for (const Index stop = at + steps * kChains * kWide; at < stop; at += kChains * kWide)
        add(WholeVector{at}, WholeVector{at + kWide}, WholeVector{at + 2 * kWide}, WholeVector{at + 3 * kWide});
      flush();
    }
    for (; at + kWide <= n_; at += kWide) add(WholeVector{at});
    if (at < n_) add(FirstItems{at, n_ - at});
    flush();
    found.total = lane_sum(total);
    found.product = kTangents ? lane_sum(products) : 0.0;
  }
  // The sum of magnitudes, for intervals of cells.
  __attribute__((noinline)) void refine() {
    Doubles sizes{};
    each_vector(n_, [&](const auto& read) HALFULP_INLINE_LAMBDA {
      const Doubles size = magnitude(read(t_, 0.0));
      sizes = kPlainSum ? Doubles(sizes + size) : multiply_add(Doubles(load(e_ + read.at)), size, sizes);
    });
    sums_.size = 0;
    for (int i = 0; i < kWide; ++i) sums_.size += sizes[i] * (1 + 0x1p-20);
    const RowForm form = row_form<kind>(sums_, n_);
    form_ = VectorForm(form);
    sure_ = form.good;
    rough_ = false;
  }

  template <class Read>
  HALFULP_ALWAYS_INLINE Interval found(const Read& read) const {
    Doubles e{}, x{}, t{};
    if constexpr (kNeedsExponentials) e = load(e_ + read.at);
    if constexpr (kind == Kind::log_value) x = read(x_, 0.0);
    if constexpr (kTangents) t = read(t_, 0.0);
    return interval<kind>(form_, e, x, t);
  }
  // The next row is needed soon.
  HALFULP_ALWAYS_INLINE void fetch(Index at, Index count) const {
    for (Index i = at; i < at + count; i += 16) {
      if constexpr (reads_kept) {
        prefetch_line(e_ + kept_of_row(n_) + i);
        prefetch_line(e_ + kept_of_row(n_) + i + 8);
      } else {
        prefetch_line(x_ + n_ + i);
      }
      if constexpr (kTangents) prefetch_line(t_ + n_ + i);
    }
  }
  // Results that are off by a known number of units.
  void values(const RowBound<kind>& bound, Cells& undecided) {
    constexpr Index together = 4 * kWide, chunk = 512;
    const Doubles factor = splat(bound.factor), top = form_.top, shift = form_.shift;
    const float* const x = x_;
    const double* const e = e_;
    float* const out = results_;
    const auto value = [&](Index i) HALFULP_INLINE_LAMBDA {
      if constexpr (kind == Kind::value) return Doubles(load(e + i) * factor);
      else return Doubles((load_doubles(x + i) - top) - shift);
    };
    const Index whole = n_ - n_ % together;
    for (Index at = 0; at < whole;) {
      const Index from = at, stop = whole - at < chunk ? whole : at + chunk;
      Middles middles(bound.margin);
      for (; at < stop; at += together) {
        fetch(at, together);
        middles.put(out + at, value(at), value(at + kWide));
        middles.put(out + at + 2 * kWide, value(at + 2 * kWide), value(at + 3 * kWide));
      }
      if (middles.unsure(bound.margin)) intervals(from, stop, undecided);
    }
    if (whole < n_) intervals(whole, n_, undecided);
  }
  void derivatives(const RowBound<kind>& bound, Cells& undecided) {
    const DerivativeEnds<kind> ends(bound);
    const float* const t = t_;
    const double* const e = e_;
    outputs(0, n_, undecided,
            [=](const auto& read) HALFULP_INLINE_LAMBDA { return ends(load(e + read.at), read(t, 0.0)); });
  }
  __attribute__((noinline)) void intervals(Index at, Index end, Cells& undecided) {
    outputs(at, end, undecided, [&](const auto& read) HALFULP_INLINE_LAMBDA { return found(read); });
  }
  // The ends of intervals.
  template <class Ends_of>
  HALFULP_ALWAYS_INLINE void outputs(Index at, Index end, Cells& undecided, const Ends_of& ends_of) {
    constexpr int together = 4;
    float* const out = results_;
    for (; at + together * kWide <= end; at += together * kWide) {
      Ends<float> ends;
      fetch(at, together * kWide);
      for (int i = 0; i < together; ++i) {
        const Interval own = ends_of(WholeVector{at + i * kWide});
        ends.put(out + at + i * kWide, own.low, own.high);
      }
      if (ends.differ()) check(at, together * kWide, undecided);
    }
    for (; at < end; at += kWide) {
      Ends<float> ends;
      const FirstItems read{at, end - at < kWide ? end - at : kWide};
      const Interval own = ends_of(read);
      ends.put_first(out + at, own.low, own.high, read.count());
      if (ends.differ()) check(at, read.count(), undecided);
    }
  }
  __attribute__((noinline)) void check(Index at, Index count, Cells& undecided) {
    for (Index i = at; i < at + count; ++i) {
      if (is_half(p_.dtype)) results_[i] = undecided_float(p_.dtype);
      else one(i, undecided);
    }
  }
  __attribute__((noinline)) void one(Index i, Cells& undecided) {
    if constexpr (kTangents)
      if (rough_) refine();
    const Interval own = found(FirstItems{i, 1});
    if (!sure_ || !round_ends(p_.dtype, own.low[0], own.high[0], p_.out, start_ + i)) undecided.add(i);
  }

  const SoftmaxProblem& p_;
  const float *x_, *t_;
  Index start_;
  float* results_;
  Index n_;
  double* e_;
  double least_ = 0, most_ = 0;
  RowSums sums_{};
  VectorForm form_{RowForm{}};
  bool rough_ = false, sure_ = true, summed_ = false;
};

// A derivative's row of what its value has kept.
template <Kind kind>
__attribute__((noinline)) void kept_row(const SoftmaxProblem& p, Index row, double* scratch,
                                        const SoftmaxReport& report) {
  const Index n = p.length, start = row * n;
  const auto at = [=](const void* a) { return static_cast<const float*>(a) + start; };
  double* const e = p.kept + row * kept_of_row(n) + kKeptHead;  // is only read
  QuickRow<kind, true> quick(p, at(p.x), at(p.t), start, static_cast<float*>(p.out) + start, e);
  Cells undecided;
  const bool some = quick.run(undecided) && undecided.count <= Cells::capacity;
  if (!some || undecided.count > 0) precise_row(p, start, 1, scratch, report, some ? &undecided : nullptr);
}

// The row's results; false if one of them is undecided.
template <Kind kind>
HALFULP_ALWAYS_INLINE bool put_row(const RowBound<kind>& bound, const double* e, const float* t, Index n, float* out) {
  const DerivativeEnds<kind> ends_of(bound);
  Ends<float> ends;
  Index at = 0;
  for (; at + kWide <= n; at += kWide) {
    const Interval own = ends_of(load(e + at), load_doubles(t + at));
    ends.put(out + at, own.low, own.high);
  }
  if (at < n) {
    const FirstItems read{at, n - at};
    const Interval own = ends_of(load(e + at), read(t, 0.0));
    ends.put_first(out + at, own.low, own.high, read.count());
  }
  return !ends.differ();
}

// Rows of float32 with one bound each. The sums of some rows come first, then their bounds, then their results, so that
// the steps of one row do not wait for each other. A row with anything undecided is evaluated again.
template <Kind kind>
void kept_rows(const SoftmaxProblem& p, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  constexpr Index most_rows = 16, cells = 2048;  // that stay in the first cache
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Index n = p.length, step = kept_of_row(n), together = cells / n < most_rows ? cells / n : most_rows;
  const float *const x = static_cast<const float*>(p.x), *const t = static_cast<const float*>(p.t);
  float* const out = static_cast<float*>(p.out);
  for (Index from = begin, stop; from < end; from = stop) {
    stop = together < 2 ? from + 1 : from + together < end ? from + together : end;
    Products sums[most_rows];
    RowBound<kind> bounds[most_rows];
    bool good[most_rows];
    for (Index row = from; row < stop; ++row)
      sums[row - from] = products_of<kind == Kind::log_cotangent>(p.kept + row * step + kKeptHead, t + row * n, n);
    for (Index row = from; row < stop; ++row) {
      const double* const head = p.kept + row * step;
      const Products& own = sums[row - from];
      const RowForm form = row_form<kind>(
          RowSums{head[0], head[1], head[2], 0, own.sum, size_of_sums<kind>(own.most, head[2], n)}, n);
      bounds[row - from] = RowBound<kind>(form, 0, own.most);
      good[row - from] = form.good && bounds[row - from].good;
    }
    for (Index row = from; row < stop; ++row) {
      const double* const head = p.kept + row * step;
      if (!good[row - from] || !put_row(bounds[row - from], head + kKeptHead, t + row * n, n, out + row * n))
        kept_row<kind>(p, row, scratch, report);
      else if (kind == Kind::derivative && head[1] == -infinity)
        for (Index i = row * n; i < row * n + n; ++i) out[i] = number(x[i]) == -infinity ? 0.0f : out[i];
    }
  }
}

template <Kind kind>
void rows_of(const SoftmaxProblem& p, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  const Index n = p.length;
  const bool half = is_half(p.dtype);
  if constexpr (!is_value(kind))
    if (p.kept != nullptr) return kept_rows<kind>(p, begin, end, scratch, report);
  float* const floats = reinterpret_cast<float*>(scratch + n + kWide);  // of half types: cells, tangents, results
  for (Index row = begin; row < end; ++row) {
    Cells undecided;
    bool some = false;
    if (p.dtype != DType::f64) {
      if (half) widen_to(floats, p.dtype, p.x, row * n, n);
      if (half && !is_value(kind)) widen_to(floats + n, p.dtype, p.t, row * n, n);
      const float* const x = half ? floats : static_cast<const float*>(p.x) + row * n;
      const float* const t = half || is_value(kind) ? floats + n : static_cast<const float*>(p.t) + row * n;
      float* const results = half ? floats + 2 * n : static_cast<float*>(p.out) + row * n;
      double* const kept = p.kept == nullptr ? nullptr : p.kept + row * kept_of_row(n);
      QuickRow<kind> quick(p, x, t, row * n, results, kept == nullptr ? scratch : kept + kKeptHead);
      some = quick.run(undecided) && undecided.count <= Cells::capacity;
      if (kept != nullptr) quick.keep(kept);
      if (some && undecided.count == 0) continue;
    }
    precise_row(p, row * n, 1, scratch, report, some ? &undecided : nullptr);
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
