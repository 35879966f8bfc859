// Rows that lie in memory one after the other, in groups. For kernels only.
#pragma once

#include <optional>

#include "softmax/kernels/rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The results of a row, with what is left in pairs of doubles.
template <class Row>
HALFULP_ALWAYS_INLINE void put_or_refine(Row& quick, const SoftmaxProblem& p, Index row, double* scratch,
                                         const SoftmaxReport& report) {
  Cells undecided;
  if (quick.good()) quick.put(undecided);
  const bool some = quick.good() && undecided.count <= Cells::capacity;
  if (!some || undecided.count > 0)
    precise_row(p, row * p.length, 1, scratch, report, some ? &undecided : nullptr);
}

// A derivative's row of what its value has kept.
template <Kind kind>
HALFULP_NOINLINE void kept_row(const SoftmaxProblem& p, Index row, double* scratch,
                                        const SoftmaxReport& report) {
  const Index n = p.length, start = row * n;
  const auto at = [=](const void* a) { return static_cast<const float*>(a) + start; };
  double* const e = p.kept + row * kept_of_row(n) + kKeptHead;  // is only read
  QuickRow<kind, true> quick(p, at(p.x), at(p.t), start, static_cast<float*>(p.out) + start, e);
  quick.sum_up();
  quick.find_form();
  put_or_refine(quick, p, row, scratch, report);
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
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Index n = p.length, step = kept_of_row(n), together = rows_together(n);
  const float *const x = static_cast<const float*>(p.x), *const t = static_cast<const float*>(p.t);
  float* const out = static_cast<float*>(p.out);
  for (Index from = begin, stop; from < end; from = stop) {
    stop = from + together < end ? from + together : end;
    Products sums[kMostRows];
    RowBound<kind> bounds[kMostRows];
    bool good[kMostRows];
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

// Rows whose steps are taken in turn, so that those of one row do not wait for each other.
template <Kind kind>
class RowGroup {
 public:
  template <class... Arguments>
  void add(const Arguments&... arguments) {
    rows_[count_].emplace(arguments...);
    rows_[count_++]->look();
  }
  void find_forms() {
    double logarithms[kMostRows]{};
    for (Index i = 0; i < count_; ++i) {
      rows_[i]->sum_up();
      if constexpr (kind == Kind::log_value) logarithms[i] = rows_[i]->above_one();
    }
    if constexpr (kind == Kind::log_value)
      for (double& logarithm : logarithms) logarithm = log_one_plus(logarithm);
    for (Index i = 0; i < count_; ++i) rows_[i]->find_form(logarithms[i]);
  }
  QuickRow<kind>& operator[](Index i) { return *rows_[i]; }

 private:
  std::optional<QuickRow<kind>> rows_[kMostRows];
  Index count_ = 0;
};

// Rows in double.
template <Kind kind>
void quick_rows(const SoftmaxProblem& p, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  const Index n = p.length, room = kept_of_row(n), together = rows_together(n);
  const bool half = is_half(p.dtype);
  double* const spare = scratch + together * room;  // for pairs of doubles
  const auto floats = [&](Index i, Index which) {  // of half types: cells, tangents, results
    return reinterpret_cast<float*>(spare + 4 * n) + (i * 3 + which) * n;
  };
  for (Index from = begin, stop; from < end; from = stop) {
    stop = from + together < end ? from + together : end;
    RowGroup<kind> rows;
    for (Index row = from; row < stop; ++row) {
      const Index i = row - from, start = row * n;
      if (half) widen_to(floats(i, 0), p.dtype, p.x, start, n);
      if (half && !is_value(kind)) widen_to(floats(i, 1), p.dtype, p.t, start, n);
      const float* const x = half ? floats(i, 0) : static_cast<const float*>(p.x) + start;
      const float* const t = half || is_value(kind) ? floats(i, 1) : static_cast<const float*>(p.t) + start;
      float* const results = half ? floats(i, 2) : static_cast<float*>(p.out) + start;
      double* const e = p.kept == nullptr ? scratch + i * room : p.kept + row * room + kKeptHead;
      rows.add(p, x, t, start, results, e, together * n);
    }
    rows.find_forms();
    for (Index row = from; row < stop; ++row) {
      if (p.kept != nullptr) rows[row - from].keep(p.kept + row * room);
      put_or_refine(rows[row - from], p, row, spare, report);
    }
  }
}

template <Kind kind>
void rows_of(const SoftmaxProblem& p, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  if constexpr (!is_value(kind))
    if (p.kept != nullptr) return kept_rows<kind>(p, begin, end, scratch, report);
  if (p.dtype != DType::f64) return quick_rows<kind>(p, begin, end, scratch, report);
  for (Index row = begin; row < end; ++row) precise_row(p, row * p.length, 1, scratch, report, nullptr);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
