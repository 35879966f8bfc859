// A row that lies in memory as it is. For kernels only.
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
  V top[2], least[2];
  const auto look = [&](int j, Index at) HALFULP_IN_LINE {
    const V v = load(x + at);
    top[j] = max_first(top[j], v);
    least[j] = v < least[j] ? v : least[j];
  };
  top[0] = load_first(x, n < width ? n : width);
  const auto inside = lane_numbers<std::int32_t>() < splat(static_cast<std::int32_t>(n));
  if (n < width) top[0] = select(inside, top[0], splat(x[0]));
  top[1] = least[0] = least[1] = top[0];
  Index at = width;
  for (; at + 2 * width <= n; at += 2 * width) {
    look(0, at);
    look(1, at + width);
  }
  for (; at < n; at += width) look(0, at + width <= n ? at : n - width);  // the last vector once more, up to the end
  return {number(largest_lane(max_first(top[0], top[1]))),
          -number(largest_lane(max_first(V(-least[0]), V(-least[1]))))};
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
      n, [&](int chain, const auto& read) HALFULP_IN_LINE { sums[chain] += read(e, 0.0); },
      [&]() HALFULP_IN_LINE {
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
    const auto add = [&](const auto& read) HALFULP_IN_LINE {
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
  // e: room for the exponentials, up to whole vectors. `ahead`: how far the cells are that are needed soon.
  QuickRow(const SoftmaxProblem& p, const float* x, const float* t, Index start, float* results, double* e,
           Index ahead = 0)
      : p_(p), x_(x), t_(t), start_(start), results_(results), n_(p.length), ahead_(ahead), e_(e) {}

  // The steps of a row are look(), sum_up(), find_form() and put(). The range of a row that has no kept exponentials:
  void look() {
    if constexpr (!reads_kept) range_ = range_of(x_, n_);
  }
  // Every sum but that of magnitudes, if there is one.
  void sum_up() {
    if constexpr (reads_kept) {
      const double* const head = e_ - kKeptHead;
      sums_ = RowSums{head[0], head[1], head[2], 0, 0, 0};
      range_ = {sums_.top, sums_.least};
      summed_ = !std::isnan(sums_.total);
      if (!summed_) return;
      const Products found = products_of<kPlainSum>(e_, t_, n_);
      sums_.product = found.sum;
      most_ = found.most;
    } else {
      sums_ = RowSums{range_.top, range_.least, 0, 0, 0, 0};
      if (!(std::fabs(range_.top) < std::numeric_limits<double>::infinity())) return;
      if (range_.top - range_.least <= -kLowest && n_ % kWide == 0) exponentials<false>(sums_);
      else exponentials<true>(sums_);
      if constexpr (kTangents) most_ = largest_magnitude(t_, n_);
      summed_ = std::isfinite(sums_.total);
    }
  }
  // The total less the exponential of the top, which is 1: find_form() takes the logarithm of 1 + this.
  double above_one() {
    if (!summed_) return 0.0;
    const bool close = sums_.total < 1.125;  // taking the 1 off would cancel
    const double rest = close ? sum_without_top(e_, n_) : sums_.total - 1.0;
    sums_.size = close ? rest : sums_.total;
    return rest;
  }
  // The coefficients of the row.
  void find_form(double logarithm = 0.0) {
    sums_.logarithm = logarithm;
    if constexpr (kTangents) {  // a bound of the sum of magnitudes; refine() sums them
      sums_.size = size_of_sums<kind>(most_, sums_.total, n_);
      rough_ = true;
    }
    set_form(row_form<kind>(sums_, n_));
  }
  void set_form(const RowForm& form) {
    form_ = form;
    bound_ = RowBound<kind>(form, form.top - range_.least, most_);
  }
  const RowForm& form() const { return form_; }
  // Whether double can be trusted with this row.
  bool good() const { return summed_ && form_.good; }
  double least() const { return range_.least; }
  // What is kept of the row, see kKeptHead.
  void keep(double* head) const {
    head[0] = sums_.top;
    head[1] = sums_.least;
    head[2] = summed_ ? sums_.total : std::numeric_limits<double>::quiet_NaN();
  }
  // The results of a good row; `undecided` has the cells that are left.
  void put(Cells& undecided) {
    if (!bound_.good) intervals(0, n_, undecided);
    else if constexpr (is_value(kind)) values(bound_, undecided);
    else derivatives(bound_, undecided);
    if (is_half(p_.dtype))
      narrow_floats(p_.dtype, results_, n_, p_.out, start_, [&](Index i) { one(i, undecided); });
    if constexpr (kind == Kind::derivative)
      if (range_.least == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n_; ++i)
          if (number(x_[i]) == -std::numeric_limits<double>::infinity()) put_as(p_.dtype, 0.0, p_.out, start_ + i);
  }

 private:
  template <bool far>
  void exponentials(RowSums& found) {
    const Doubles top = splat(found.top);
    VectorPair total{}, products{};
    Doubles sum{}, term{};
    const float *const x = x_, *const t = t_;
    double* const e = e_;
    const auto flush = [&]() HALFULP_IN_LINE {
      total = with(total, sum);
      if constexpr (kTangents) products = with(products, term);
      sum = term = Doubles{};
    };
    // Vectors are added to each other before the chain: no number meets more than kLongest additions.
    const auto add = [&](auto... reads) HALFULP_IN_LINE {
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
  HALFULP_NOINLINE void refine() {
    Doubles sizes{};
    each_vector(n_, [&](const auto& read) HALFULP_IN_LINE {
      const Doubles size = magnitude(read(t_, 0.0));
      sizes = kPlainSum ? Doubles(sizes + size) : multiply_add(Doubles(load(e_ + read.at)), size, sizes);
    });
    sums_.size = 0;
    for (int i = 0; i < kWide; ++i) sums_.size += sizes[i] * (1 + 0x1p-20);
    form_ = row_form<kind>(sums_, n_);
    sure_ = form_.good;
    rough_ = false;
  }

  template <class Read>
  HALFULP_ALWAYS_INLINE Interval found(const VectorForm& form, const Read& read) const {
    Doubles e{}, x{}, t{};
    if constexpr (kNeedsExponentials) e = load(e_ + read.at);
    if constexpr (kind == Kind::log_value) x = read(x_, 0.0);
    if constexpr (kTangents) t = read(t_, 0.0);
    return interval<kind>(form, e, x, t);
  }
  // The rows that follow are needed soon.
  HALFULP_ALWAYS_INLINE void fetch(Index at, Index count) const {
    for (Index i = at; i < at + count; i += 16) {
      if constexpr (reads_kept) {
        prefetch_line(e_ + kept_of_row(n_) + i);
        prefetch_line(e_ + kept_of_row(n_) + i + 8);
      } else {
        prefetch_line(x_ + ahead_ + i);
      }
      if constexpr (kTangents) prefetch_line(t_ + ahead_ + i);
    }
  }
  // Results that are off by a known number of units.
  void values(const RowBound<kind>& bound, Cells& undecided) {
    constexpr Index together = 4 * kWide, chunk = 512;
    const Doubles factor = splat(bound.factor), top = splat(form_.top), shift = splat(form_.shift);
    const float* const x = x_;
    const double* const e = e_;
    float* const out = results_;
    const auto value = [&](Index i) HALFULP_IN_LINE {
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
    constexpr Index pair = 2 * kWide;
    if (whole < n_ && n_ < pair) return intervals(whole, n_, undecided);
    for (Index at = whole; at < n_; at += pair) {
      const Index i = at + pair <= n_ ? at : n_ - pair;  // the last ones once more, up to the end
      Middles middles(bound.margin);
      middles.put(out + i, value(i), value(i + kWide));
      if (middles.unsure(bound.margin)) intervals(i, i + pair, undecided);
    }
  }
  void derivatives(const RowBound<kind>& bound, Cells& undecided) {
    const DerivativeEnds<kind> ends(bound);
    const float* const t = t_;
    const double* const e = e_;
    outputs(0, n_, undecided,
            [=](const auto& read) HALFULP_IN_LINE { return ends(load(e + read.at), read(t, 0.0)); });
  }
  HALFULP_NOINLINE void intervals(Index at, Index end, Cells& undecided) {
    const VectorForm form(form_);
    outputs(at, end, undecided, [&](const auto& read) HALFULP_IN_LINE { return found(form, read); });
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
  HALFULP_NOINLINE void check(Index at, Index count, Cells& undecided) {
    for (Index i = at; i < at + count; ++i) {
      if (is_half(p_.dtype)) results_[i] = undecided_float(p_.dtype);
      else one(i, undecided);
    }
  }
  HALFULP_NOINLINE void one(Index i, Cells& undecided) {
    if constexpr (kTangents)
      if (rough_) refine();
    const Index at = i - i % kWide;  // exponentials end with a whole vector
    const Interval own = found(VectorForm(form_), FirstItems{at, n_ - at < kWide ? n_ - at : kWide});
    const double low = own.low[i - at], high = own.high[i - at];
    if (!sure_ || !round_ends(p_.dtype, low, high, p_.out, start_ + i)) undecided.add(i);
  }

  const SoftmaxProblem& p_;
  const float *x_, *t_;
  Index start_;
  float* results_;
  Index n_, ahead_;
  double* e_;
  Range range_{};
  double most_ = 0;
  RowSums sums_{};
  RowForm form_;
  RowBound<kind> bound_;
  bool rough_ = false, sure_ = true, summed_ = false;
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
