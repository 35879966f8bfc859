// Rows along another axis than the last: a vector has one cell of each of neighbouring columns. For kernels only.
#pragma once

#include "softmax/kernels/rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

HALFULP_ALWAYS_INLINE Doubles smallest_of(const Doubles& first, const Doubles& second) {
  return -max_first(Doubles(-first), Doubles(-second));
}

// Neighbouring columns: some whole vectors of them, or the first of one vector.
template <int count>
struct WholeColumns {
  static constexpr int kVectors = count;
  static constexpr Index width() { return count * kWide; }
  static HALFULP_ALWAYS_INLINE Doubles cells(const float* x, int k) { return load_doubles(x + k * kWide); }
  static HALFULP_ALWAYS_INLINE void put(Ends<float>& ends, float* out, int k, const Interval& own) {
    ends.put(out + k * kWide, own.low, own.high);
  }
};
struct FirstColumns {
  static constexpr int kVectors = 1;
  Index left;
  Index width() const { return left; }
  HALFULP_ALWAYS_INLINE Doubles cells(const float* x, int) const { return load_first_doubles(x, left, 0.0); }
  HALFULP_ALWAYS_INLINE void put(Ends<float>& ends, float* out, int, const Interval& own) const {
    ends.put_first(out, own.low, own.high, left);
  }
};

template <Kind kind>
class Tile {
  static constexpr bool kTangents = !is_value(kind);
  static constexpr bool kPlainSum = kind == Kind::log_cotangent;
  static constexpr int kTogether = kSoftmaxColumns / kWide < 4 ? kSoftmaxColumns / kWide : 4;

 public:
  Tile(const SoftmaxProblem& p, Index outer, Index first, double* scratch, const SoftmaxReport& report)
      : p_(p),
        start_(outer * p.length * p.inner + first),
        count_(p.inner - first < kSoftmaxColumns ? p.inner - first : kSoftmaxColumns),
        scratch_(scratch),
        report_(report),
        kept_(p.kept == nullptr ? nullptr
                                : p.kept + (outer * ((p.inner + kSoftmaxColumns - 1) / kSoftmaxColumns) +
                                            first / kSoftmaxColumns) * kept_of_tile(p.length)) {}

  void run() {
    if (p_.dtype == DType::f64) {
      for (Index j = 0; j < count_; ++j) precise(j);
      return;
    }
    if (is_half(p_.dtype)) {
      widen();
    } else {
      x_ = static_cast<const float*>(p_.x) + start_;
      if (kTangents) t_ = static_cast<const float*>(p_.t) + start_;
      out_ = static_cast<float*>(p_.out) + start_;
      step_ = p_.inner;
    }
    for (Index j = 0; j < count_;) {
      if (j + kTogether * kWide <= count_) j += columns_from(j, WholeColumns<kTogether>{});
      else if (j + kWide <= count_) j += columns_from(j, WholeColumns<1>{});
      else j += columns_from(j, FirstColumns{count_ - j});
    }
  }

 private:
  double* spare() const { return scratch_ + kSoftmaxColumns * p_.length; }

  // Half types: cells, tangents and results as floats.
  void widen() {
    const Index n = p_.length, size = n * kSoftmaxColumns;
    float* const floats = reinterpret_cast<float*>(spare() + 4 * n);
    for (Index i = 0; i < n; ++i) {
      const Index from = start_ + i * p_.inner;
      widen_to(floats + i * kSoftmaxColumns, p_.dtype, p_.x, from, count_);
      if (kTangents) widen_to(floats + size + i * kSoftmaxColumns, p_.dtype, p_.t, from, count_);
    }
    x_ = floats;
    t_ = floats + size;
    out_ = floats + 2 * size;
    step_ = kSoftmaxColumns;
  }

  // What is known of a vector of columns.
  struct Sums {
    Doubles top, least, total, rest, product, most, size;
  };
  // The columns from `j` on; returns how many they are.
  template <class Columns>
  HALFULP_NOINLINE Index columns_from(Index j, const Columns& columns) {
    constexpr int count = Columns::kVectors;
    first_ = j;
    e_ = (kept_ == nullptr ? scratch_ : kept_ + 3 * kSoftmaxColumns) + j;
    Sums sums[count]{};
    if (kTangents && kept_ != nullptr) {
      for (int k = 0; k < count; ++k) {
        const double* const head = kept_ + j + k * kWide;
        sums[k].top = load(head);
        sums[k].least = load(head + kSoftmaxColumns);
        sums[k].total = load(head + 2 * kSoftmaxColumns);
      }
      products(columns, sums);
    } else {
      find_range(columns, sums);
      bool far = false;
      for (const Sums& s : sums) far |= !all_lanes(s.top - s.least <= splat(-kLowest));
      if (far) exponentials<true>(columns, sums);
      else exponentials<false>(columns, sums);
      if constexpr (kTangents) products(columns, sums);
    }
    for (int k = 0; k < count && kept_ != nullptr && !kTangents; ++k) {
      double* const head = kept_ + j + k * kWide;
      store(head, sums[k].top);
      store(head + kSoftmaxColumns, sums[k].least);
      store(head + 2 * kSoftmaxColumns, sums[k].total);
    }
    find_forms(columns, sums);
    put_all(columns);
    return columns.width();
  }

  template <class Columns, int count>
  void find_range(const Columns& columns, Sums (&sums)[count]) const {
    const float* const x = x_ + first_;
    if constexpr (count > 1) {
      using V = Vector<float>;
      constexpr int width = kLanes<float>, floats = count * static_cast<int>(kWide) / width;
      V top[floats], least[floats];
      for (int k = 0; k < floats; ++k) top[k] = least[k] = load(x + k * width);
      for (Index i = 1; i < p_.length; ++i)
        for (int k = 0; k < floats; ++k) {
          const V v = load(x + i * step_ + k * width);
          top[k] = max_first(top[k], v);
          least[k] = v < least[k] ? v : least[k];
        }
      for (int k = 0; k < floats; ++k) {
        sums[2 * k].top = widen_low(top[k]);
        sums[2 * k + 1].top = widen_high(top[k]);
        sums[2 * k].least = widen_low(least[k]);
        sums[2 * k + 1].least = widen_high(least[k]);
      }
    } else {
      Doubles top = columns.cells(x, 0), least = top;
      for (Index i = 1; i < p_.length; ++i) {
        const Doubles v = columns.cells(x + i * step_, 0);
        top = max_first(top, v);
        least = smallest_of(least, v);
      }
      sums[0].top = top;
      sums[0].least = least;
    }
  }

  template <bool far, class Columns, int count>
  void exponentials(const Columns& columns, Sums (&sums)[count]) const {
    const Index n = p_.length, step = step_;
    const float* const x = x_ + first_;
    double* const e = e_;
    VectorPair total[count]{};
    for (Index i = 0; i < n;) {
      Doubles sum[count]{};
      for (const Index stop = i + kSteps < n ? i + kSteps : n; i < stop; ++i) {
        Doubles own[count];
        for (int k = 0; k < count; ++k) own[k] = columns.cells(x + i * step, k) - sums[k].top;
        exponentials_below<far>(own);
        for (int k = 0; k < count; ++k) {
          store(e + i * kSoftmaxColumns + k * kWide, own[k]);
          sum[k] += own[k];
        }
      }
      for (int k = 0; k < count; ++k) total[k] = with(total[k], sum[k]);
    }
    for (int k = 0; k < count; ++k) {
      sums[k].total = total[k].high + total[k].low;
      if constexpr (kind == Kind::log_value) {
        // Taking the 1 off would cancel in some column.
        sums[k].rest = sums[k].total - 1.0;
        sums[k].size = sums[k].total;
        if (!all_lanes(sums[k].total >= splat(1.125))) sums[k].rest = sums[k].size = sum_without_tops(k);
      }
    }
  }

  // The sums of e t, or of t, and the largest |t|.
  template <class Columns, int count>
  void products(const Columns& columns, Sums (&sums)[count]) const {
    const Index n = p_.length, step = step_;
    const float* const t = t_ + first_;
    const double* const e = e_;
    VectorPair total[count]{};
    for (Index i = 0; i < n;) {
      Doubles sum[count]{};
      for (const Index stop = i + kSteps < n ? i + kSteps : n; i < stop; ++i)
        for (int k = 0; k < count; ++k) {
          const Doubles own = columns.cells(t + i * step, k);
          if constexpr (kPlainSum) sum[k] += own;
          else sum[k] = multiply_add(load(e + i * kSoftmaxColumns + k * kWide), own, sum[k]);
          sums[k].most = max_first(sums[k].most, magnitude(own));
        }
      for (int k = 0; k < count; ++k) total[k] = with(total[k], sum[k]);
    }
    for (int k = 0; k < count; ++k) sums[k].product = total[k].high + total[k].low;
  }

  // Every column of a vector without the first of its largest cells.
  Doubles sum_without_tops(int k) const {
    VectorPair total{};
    Vector<std::int64_t> seen{};
    for (Index i = 0; i < p_.length; ++i) {
      const Doubles e = load(e_ + i * kSoftmaxColumns + k * kWide);
      const auto own = (e == splat(1.0)) & ~seen;
      seen |= own;
      total = with(total, select(own, Doubles{}, e));
    }
    return total.high;
  }

  template <class Columns, int count>
  void find_forms(const Columns& columns, const Sums (&sums)[count]) {
    double logarithms[count * kWide]{};
    if constexpr (kind == Kind::log_value)
      for (Index i = 0; i < count * kWide; ++i) logarithms[i] = log_one_plus(sums[i / kWide].rest[i % kWide]);
    for (Index i = 0; i < columns.width(); ++i) {
      const Sums& s = sums[i / kWide];
      const Index lane = i % kWide;
      most_[i] = s.most[lane];
      const double total = s.total[lane];
      const double size = kTangents ? size_of_sums<kind>(most_[i], total, p_.length) : s.size[lane] * (1 + 0x1p-20);
      sums_[i] = RowSums{s.top[lane], s.least[lane], total, logarithms[i], s.product[lane], size};
      forms_[i] = row_form<kind>(sums_[i], p_.length);
      rough_[i] = kTangents;
      undecided_[i].count = 0;
    }
  }

  // Of neighbouring columns, see RowBound. For log-softmax the top and what else is taken off take the place of ends.
  struct ColumnBounds {
    double factor[kSoftmaxColumns], low[kSoftmaxColumns], high[kSoftmaxColumns];
    std::uint32_t margin;
  };

  template <class Columns>
  void put_all(const Columns& columns) {
    constexpr Index some = 16;
    const Index n = p_.length, width = columns.width();
    ColumnBounds bounds{};
    bool quick = Columns::kVectors > 1;
    for (Index i = 0; i < width && quick; ++i) {
      const RowForm& form = forms_[i];
      const RowBound<kind> own(form, form.top - sums_[i].least, most_[i]);
      quick = form.good && own.good;
      bounds.margin = own.margin > bounds.margin ? own.margin : bounds.margin;
      bounds.factor[i] = own.factor;
      bounds.low[i] = kind == Kind::log_value ? form.top : own.low;
      bounds.high[i] = kind == Kind::log_value ? form.shift : own.high;
    }
    for (Index at = 0; at < n; at += some) {
      const Index stop = at + some < n ? at + some : n;
      if constexpr (Columns::kVectors > 1)
        if (quick && (is_value(kind) ? values(columns, bounds, at, stop) : derivatives(columns, bounds, at, stop)))
          continue;
      intervals(columns, at, stop);
    }
    for (Index i = 0; i < n && is_half(p_.dtype); ++i)
      narrow_floats(p_.dtype, out_ + first_ + i * step_, width, p_.out, start_ + i * p_.inner + first_,
                    [&](Index column) { one(i, column); });
    for (Index column = 0; column < width; ++column) {
      const Cells& own = undecided_[column];
      if (!forms_[column].good || own.count > Cells::capacity) {
        precise(first_ + column);
        continue;
      }
      if (own.count > 0) precise(first_ + column, &own);
      if (kind == Kind::derivative && sums_[column].least == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n; ++i)
          if (number(x_[first_ + column + i * step_]) == -std::numeric_limits<double>::infinity())
            put_as(p_.dtype, 0.0, p_.out, start_ + i * p_.inner + first_ + column);
    }
  }

  // Results with one bound for every column; false if one is undecided.
  template <class Columns>
  bool values(const Columns& columns, const ColumnBounds& bounds, Index at, Index stop) const {
    constexpr int count = Columns::kVectors;
    Doubles factor[count], top[count], shift[count];
    for (int k = 0; k < count; ++k) {
      factor[k] = load(bounds.factor + k * kWide);
      top[k] = load(bounds.low + k * kWide);
      shift[k] = load(bounds.high + k * kWide);
    }
    Middles middles(bounds.margin);
    for (; at < stop; ++at) {
      const float* const x = x_ + first_ + at * step_;
      const double* const e = e_ + at * kSoftmaxColumns;
      const auto value = [&](int k) HALFULP_IN_LINE {
        if constexpr (kind == Kind::value) return Doubles(load(e + k * kWide) * factor[k]);
        else return Doubles((columns.cells(x, k) - top[k]) - shift[k]);
      };
      for (int k = 0; k < count; k += 2)
        middles.put(out_ + first_ + at * step_ + k * kWide, value(k), value(k + 1));
    }
    return !middles.unsure(bounds.margin);
  }
  template <class Columns>
  bool derivatives(const Columns& columns, const ColumnBounds& bounds, Index at, Index stop) const {
    constexpr int count = Columns::kVectors;
    DerivativeEnds<kind> ends_of[count];
    for (int k = 0; k < count; ++k)
      ends_of[k] = {load(bounds.factor + k * kWide), load(bounds.low + k * kWide), load(bounds.high + k * kWide)};
    Ends<float> ends;
    for (; at < stop; ++at) {
      const Index cell = first_ + at * step_;
      const double* const e = e_ + at * kSoftmaxColumns;
      for (int k = 0; k < count; ++k)
        columns.put(ends, out_ + cell, k, ends_of[k](load(e + k * kWide), columns.cells(t_ + cell, k)));
    }
    return !ends.differ();
  }

  // Results with intervals of their own.
  template <class Columns>
  HALFULP_NOINLINE void intervals(const Columns& columns, Index at, Index stop) {
    const Index width = columns.width();
    for (int k = 0; k < Columns::kVectors; ++k) {
      const Index first = k * kWide, end = first + kWide < width ? first + kWide : width;
      const VectorForm form(forms_ + first);
      for (Index i = at; i < stop; ++i) {
        Doubles x{}, t{};
        if constexpr (kind == Kind::log_value) x = columns.cells(x_ + first_ + i * step_, k);
        if constexpr (kTangents) t = columns.cells(t_ + first_ + i * step_, k);
        Ends<float> ends;
        columns.put(ends, out_ + first_ + i * step_, k,
                    interval<kind>(form, load(e_ + i * kSoftmaxColumns + first), x, t));
        for (Index column = first; column < end && ends.differ(); ++column) {
          if (is_half(p_.dtype)) out_[first_ + i * step_ + column] = undecided_float(p_.dtype);
          else one(i, column);
        }
      }
    }
  }
  // One cell of a column.
  HALFULP_NOINLINE void one(Index i, Index column) {
    if (rough_[column]) refine(column);
    const Index at = first_ + i * step_ + column;
    Doubles x{}, t{};
    if constexpr (kind == Kind::log_value) x = splat(number(x_[at]));
    if constexpr (kTangents) t = splat(number(t_[at]));
    const Interval found = interval<kind>(VectorForm(forms_[column]), splat(e_[i * kSoftmaxColumns + column]), x, t);
    if (!round_ends(p_.dtype, found.low[0], found.high[0], p_.out, start_ + i * p_.inner + first_ + column))
      undecided_[column].add(i);
  }
  // With the sum of e |t|, or of |t|, in place of a bound of it.
  void refine(Index column) {
    double size = 0;
    for (Index i = 0; i < p_.length; ++i) {
      const double own = std::fabs(number(t_[first_ + i * step_ + column]));
      size += kPlainSum ? own : e_[i * kSoftmaxColumns + column] * own;
    }
    sums_[column].size = size * (1 + 0x1p-20);
    forms_[column] = row_form<kind>(sums_[column], p_.length);
    rough_[column] = false;
  }

  // One column in pairs of doubles, gathered.
  void precise(Index j, const Cells* cells = nullptr) {
    precise_row(p_, start_ + j, p_.inner, spare(), report_, cells);
  }

  const SoftmaxProblem& p_;
  Index start_, count_, step_ = 0, first_ = 0;
  const float *x_ = nullptr, *t_ = nullptr;
  float* out_ = nullptr;
  double* scratch_;
  const SoftmaxReport& report_;
  double* kept_;         // the tile's, see kKeptHead
  double* e_ = nullptr;  // of the columns from first_ on
  // Of these columns:
  RowSums sums_[kSoftmaxColumns];
  RowForm forms_[kSoftmaxColumns];
  double most_[kSoftmaxColumns];
  bool rough_[kSoftmaxColumns];
  Cells undecided_[kSoftmaxColumns];
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
