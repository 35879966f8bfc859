// Cross entropy of rows, see halfulp/loss.hpp: in double first (float64 in pairs of doubles), the rest in pairs.
#include "loss/loss_kernels.hpp"

#include <cmath>
#include <limits>

#include "softmax/kernels/row_groups.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kFloor = -600.0;  // exponentials below this one are taken for zeros; the bound counts them

double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }

// The sum of term(i) over [0, n), and of the magnitudes.
template <class Real, class F>
HALFULP_ALWAYS_INLINE Real summed(Index n, double& size, F&& term) {
  if constexpr (sizeof(Real) == sizeof(double)) {
    Pair total{0.0, 0.0};
    for (Index from = 0; from < n; from += kBlock) {
      const Index stop = n - from < kBlock ? n - from : kBlock, whole = stop / kLanes16 * kLanes16;
      Lanes sums, sizes;
      const auto one = [&](Index i, int l) {
        const double v = term(i);
        sums.lane[l] += v;
        sizes.lane[l] += std::fabs(v);
      };
      for (Index i = 0; i < whole; i += kLanes16)
        for (int l = 0; l < kLanes16; ++l) one(from + i + l, l);
      for (Index i = whole; i < stop; ++i) one(from + i, static_cast<int>(i - whole));
      total = with(total, sums.sum());
      size += sizes.sum();
    }
    return total.high;
  } else {
    Pair total{0.0, 0.0};
    for (Index i = 0; i < n; ++i) {
      const Pair v = term(i);
      total = total + v;
      size += size_of(v);
    }
    return total;
  }
}

template <class Real>
class Row {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Row(const EntropyProblem& p, Index row, double* scratch)
      : p_(p),
        start_(row * p.classes),
        n_(p.classes),
        label_(p.labels == nullptr ? 0 : p.labels[row]),
        dense_(p.target != nullptr || p.base_high != nullptr),
        high_(scratch),
        low_(scratch + p.classes),
        a_high_(scratch + 2 * p.classes),
        a_low_(scratch + 3 * p.classes),
        x_(widened(p.x, scratch + 4 * p.classes)),
        target_(widened(p.target, scratch + 5 * p.classes)),
        t_(widened(p.t, scratch + 6 * p.classes)) {}

  // False if this kind of number cannot be trusted with this row, or if it holds what is not a number.
  bool prepare() {
    double least;
    if (!survey(least) || !(std::fabs(top_) < 0x1p1000)) return false;
    top_at_ = 0;
    while (x_[top_at_] != top_) ++top_at_;
    // A difference is rounded once, which changes its exponential by |d| units at most.
    term_ = (10 + std::fmin(top_ - least, -kFloor)) * u;
    tiny_ = static_cast<double>(n_) * 0x1p-860;
    exponentials();
    double ignored = 0;
    rest_ = summed<Real>(n_, ignored, [&](Index i) { return at<Real>(high_, low_, i); });
    rest_error_ = size_of(rest_) * (sum_error<Real>(n_) + term_) + tiny_;
    total_ = real<Real>(1.0) + rest_;
    total_error_ = (rest_error_ + 2 * u * size_of(total_)) / size_of(total_);  // relative
    return coefficients();
  }

  // -sum(A log p) = sum(A (top - x)) + S log(sum(exp(x - top)))
  Real value(double& error) const {
    const Real log = log_one_plus(rest_);
    const double log_error = rest_error_ * 1.01 + size_of(log) * 20 * u;
    const Real tail = s_ * log;
    double size = 0;
    Real head{};
    if (dense_) {
      head = summed<Real>(n_, size, [&](Index i) { return at<Real>(a_high_, a_low_, i) * depth(i); });
    } else {
      head = s_ * depth(label_);
      size = size_of(head);
    }
    const Real y = head + tail;
    error = size * (sum_error<Real>(n_) + 16 * u) + (size_of(s_) + s_error_) * log_error * 1.01 +
            s_error_ * size_of(log) + 8 * u * size_of(tail);
    return y;
  }

  // S sum(p t) - sum(A t), of differences to the tangent at the label if that is all
  Real tangent(double& error) const {
    const Real origin = dense_ ? real<Real>(0.0) : real<Real>(t_[label_]);
    double size = 0, own = 0;
    Real sum = summed<Real>(n_, size, [&](Index i) {
      return at<Real>(high_, low_, i) * (real<Real>(t_[i]) + negated(origin));
    });
    const Real top = real<Real>(t_[top_at_]) + negated(origin);
    sum = (sum + top) / total_;
    size = (size + size_of(top)) / size_of(total_);
    const double k = sum_error<Real>(n_) + 8 * u;
    double largest = 0;
    for (Index i = 0; i < n_; ++i) {
      const double v = std::fabs(t_[i]);
      largest = v > largest ? v : largest;
      if (!trusted(v)) largest = INFINITY;
    }
    const double sum_off = size * (k + term_ + total_error_ * 1.01) * 1.01 + 2 * tiny_ * largest;
    const Real y = s_ * sum;
    error = (size_of(s_) + s_error_) * sum_off + s_error_ * size_of(sum) + 4 * u * size_of(y);
    if (!dense_) return y;
    const Real minus = summed<Real>(n_, own, [&](Index i) {
      return at<Real>(a_high_, a_low_, i) * real<Real>(t_[i]);
    });
    error += own * (k + 16 * u) + 4 * u * (size_of(y) + size_of(minus));
    return y + negated(minus);
  }

  // (S p - A) h in every cell; returns how many are undecided, each given to `left`, which returns 1.
  template <class F>
  Index spread(Real h, F&& left) {
    put(high_, low_, top_at_, real<Real>(1.0));
    const Real f = s_ / total_ * h;
    const double off = term_ + total_error_ * 1.01 + 24 * u + (size_of(s_) > 0 ? s_error_ / size_of(s_) : 0.0);
    const double small = tiny_ * (size_of(s_) + s_error_) * size_of(h) * 1.01;
    return dense_ ? spread_dense(h, f, off, small, left) : spread_label(h, f, off, small, left);
  }

 private:
  const double* widened(const void* data, double* to) const {
    if (data == nullptr) return nullptr;
    widen_to(to, p_.dtype, data, start_, n_);
    return to;
  }

  bool decided(Index i, Real y, double error, double sign) const {
    return decide_signed(p_.dtype, RealTraits<Pair>::from(R::high(y), R::low(y)), error, sign, p_.out, start_ + i);
  }

  // All cells, from the result of each and what bounds its error; returns how many are undecided, each given to `left`.
  // In double, the ends take the place of low parts.
  template <class One, class F>
  HALFULP_ALWAYS_INLINE Index put_all(double sign, const One& one, F&& left) {
    Index unsure = 0;
    if constexpr (sizeof(Real) == sizeof(double)) {
      double *const lows = low_, *const highs = a_low_;
      const double least = sign > 0 ? 0.0 : -std::numeric_limits<double>::infinity();
      const double most = sign < 0 ? -0.0 : std::numeric_limits<double>::infinity();
      const double zero = sign == 0 ? 0.0 : -0.0;  // without a sign, the zeros of ends are positive
      for (Index i = 0; i < n_; ++i) {
        double error;
        const double y = one(i, error), low = y - error, high = y + error;
        lows[i] = (low > least ? low : least) + zero;
        highs[i] = (high < most ? high : most) + zero;
      }
      if (round_all_ends(p_.dtype, lows, highs, n_, p_.out, start_) == 0) return 0;
      for (Index i = 0; i < n_; ++i)
        if (!round_ends(p_.dtype, lows[i], highs[i], p_.out, start_ + i)) unsure += left(i);
    } else {
      for (Index i = 0; i < n_; ++i) {
        double error;
        const Real y = one(i, error);
        if (!decided(i, y, error, sign)) unsure += left(i);
      }
    }
    return unsure;
  }

  // S p h, but for the label.
  template <class F>
  Index spread_label(Real h, Real f, double off, double small, F&& left) {
    const double sign = sign_of(R::high(s_)) * sign_of(R::high(h));
    const auto one = [&](Index i, double& error) HALFULP_IN_LINE {
      const Real y = at<Real>(high_, low_, i) * f;
      error = size_of(y) * off + small;
      return y;
    };
    const Index others = put_all(sign, one, [&](Index i) { return i == label_ ? Index{0} : left(i); });
    return others + (at_label(f, off, sign) ? Index{0} : left(label_));
  }

  template <class F>
  Index spread_dense(Real h, Real f, double off, double small, F&& left) {
    const double lost = small + (size_of(s_) > 0 ? 0.0 : s_error_ * size_of(h) * 1.01);
    const auto one = [&](Index i, double& error) HALFULP_IN_LINE {
      const Real p = at<Real>(high_, low_, i) * f, a = at<Real>(a_high_, a_low_, i) * h;
      error = size_of(p) * off + lost + 16 * u * size_of(a);
      return p + negated(a);
    };
    return put_all(0.0, one, left);
  }

  // S (p - 1) h = -S h (the sum of the other exponentials) / total
  bool at_label(Real f, double off, double sign) const {
    Real others = rest_;
    double others_error = rest_error_;
    if (label_ != top_at_) {
      const Real own = at<Real>(high_, low_, label_);
      others = total_ + negated(own);
      others_error = size_of(total_) * total_error_ * 1.01 + size_of(own) * term_ + 2 * u * size_of(others);
    }
    if (n_ == 1) {
      put_as(p_.dtype, 0.0, p_.out, start_ + label_);
      return true;
    }
    const Real y = negated(others * f);
    return decided(label_, y, size_of(y) * off + others_error * size_of(f) * 1.01, -sign);
  }

  // Pairs neither overflow nor lose bits within a range.
  static bool trusted(double v) {
    return sizeof(Real) == sizeof(double) || v == 0 || (std::fabs(v) > kSmallest && std::fabs(v) < kLargest);
  }

  Real depth(Index i) const { return difference(top_, x_[i], static_cast<Real*>(nullptr)); }

  // The largest and the smallest cell, in 16 lanes; false if a cell is not finite.
  bool survey(double& least) {
    double tops[kLanes16], leasts[kLanes16], odd[kLanes16];
    for (int l = 0; l < kLanes16; ++l) {
      tops[l] = -INFINITY;
      leasts[l] = INFINITY;
      odd[l] = 0;
    }
    const double* const x = x_;
    const auto look = [&](Index i, int l) {
      const double v = x[i];
      tops[l] = v > tops[l] ? v : tops[l];
      leasts[l] = v < leasts[l] ? v : leasts[l];
      odd[l] += v - v;  // NaN for infinities, too
    };
    const Index whole = n_ / kLanes16 * kLanes16;
    for (Index i = 0; i < whole; i += kLanes16)
      for (int l = 0; l < kLanes16; ++l) look(i + l, l);
    for (Index i = whole; i < n_; ++i) look(i, static_cast<int>(i - whole));
    double strange = 0;
    top_ = -INFINITY;
    least = INFINITY;
    for (int l = 0; l < kLanes16; ++l) {
      top_ = tops[l] > top_ ? tops[l] : top_;
      least = leasts[l] < least ? leasts[l] : least;
      strange += odd[l];
    }
    return strange == 0;
  }

  // exp(x - top) of every cell but the largest.
  void exponentials() {
    if constexpr (sizeof(Real) == sizeof(double)) {
      const double top = top_;
      const double* const x = x_;
      double* const high = high_;
      const Index n = n_;
      for (Index i = 0; i < n; ++i) {
        const double d = x[i] - top;
        const double e = exponential(d < kFloor ? kFloor : d);
        high[i] = d < kFloor ? 0.0 : e;
      }
    } else {
      for (Index i = 0; i < n_; ++i) {
        const Real d = difference(x_[i], top_, static_cast<Real*>(nullptr));
        put(high_, low_, i, d.high < kFloor ? Real{0.0, 0.0} : exponential(d));
      }
    }
    put(high_, low_, top_at_, real<Real>(0.0));
  }

  Real lead(Index i) const {
    return p_.lead_high == nullptr ? real<Real>(1.0) : R::from(p_.lead_high[i], p_.lead_low[i]);
  }
  Real base(Index i) const {
    return p_.base_high == nullptr ? real<Real>(0.0) : R::from(p_.base_high[i], p_.base_low[i]);
  }

  // A and its sum.
  bool coefficients() {
    if (!dense_) {
      s_ = lead(label_);
      s_error_ = 2 * u * size_of(s_);
      return trusted(size_of(s_));
    }
    double size = 0;
    if (target_ == nullptr) {
      for (Index i = 0; i < n_; ++i) put(a_high_, a_low_, i, base(i));
      const Real own = lead(label_);
      put(a_high_, a_low_, label_, own + base(label_));
      const Real total = R::from(p_.base_total[0], p_.base_total[1]);
      s_ = own + total;
      size = size_of(own) + size_of(total);
      s_error_ = 4 * u * size;
      return std::isfinite(size) && trusted(size_of(own)) && trusted(size_of(total));
    }
    for (Index i = 0; i < n_; ++i) put(a_high_, a_low_, i, lead(i) * real<Real>(target_[i]) + base(i));
    s_ = summed<Real>(n_, size, [&](Index i) { return at<Real>(a_high_, a_low_, i); });
    bool good = true;
    for (Index i = 0; i < n_; ++i) {
      size += std::fabs(R::high(lead(i)) * target_[i]) + size_of(base(i));
      good = good && trusted(target_[i]) && trusted(size_of(lead(i)));
    }
    s_error_ = size * (sum_error<Real>(n_) + 8 * u);
    return good && std::isfinite(size);
  }

  const EntropyProblem& p_;
  Index start_, n_;
  Index label_;
  bool dense_;
  double *high_, *low_, *a_high_, *a_low_;
  const double *x_, *target_, *t_;
  double top_ = 0, term_ = 0, tiny_ = 0, rest_error_ = 0, total_error_ = 0, s_error_ = 0;
  Index top_at_ = 0;
  Real rest_{}, total_{}, s_{};
};

bool in_range(double x) { return std::fabs(x) > kSmallest && std::fabs(x) < kLargest; }

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// float32 with labels alone goes through the rows of softmax.
bool plain(const EntropyProblem& p) {
  return p.dtype == DType::f32 && p.labels != nullptr && p.base_high == nullptr && p.work != EntropyWork::tangent;
}
SoftmaxProblem softmax_of(const EntropyProblem& p) {
  SoftmaxProblem rows;
  rows.length = p.classes;
  rows.x = p.x;
  rows.out = p.out;
  return rows;
}

// Calls use(row, its QuickRow, its exponentials) for rows in groups.
template <Kind kind, class Use>
void in_groups(const EntropyProblem& p, Index begin, Index end, double* scratch, const Use& use) {
  const SoftmaxProblem problem = softmax_of(p);
  const Index n = p.classes, together = rows_together(n), room = kept_of_row(n);
  for (Index from = begin, stop; from < end; from = stop) {
    stop = from + together < end ? from + together : end;
    RowGroup<kind> rows;
    for (Index row = from; row < stop; ++row) {
      const Index start = row * n;
      float* const out = kind == Kind::value ? static_cast<float*>(p.out) + start : nullptr;
      const float* const x = static_cast<const float*>(p.x) + start, *const none = nullptr;
      rows.add(problem, x, none, start, out, scratch + (row - from) * room, together * n);
    }
    rows.find_forms();
    for (Index row = from; row < stop; ++row) use(row, rows[row - from], scratch + (row - from) * room);
  }
}

// lead times the negative log-softmax at the label
Enclosed plain_row(const EntropyProblem& p, Index which, const QuickRow<Kind::log_value>& row) {
  const float* const x = static_cast<const float*>(p.x) + which * p.classes;
  const Index label = p.labels[which];
  const RowForm& f = row.form();
  if (!row.good() || !std::isfinite(row.least())) return {0, 0, kUnknown};
  const double y = f.shift - (number(x[label]) - f.top);
  const double error = (std::fabs(y) * f.relative + f.error) * 1.01;
  if (!std::isfinite(y) || !std::isfinite(error)) return {0, 0, kUnknown};
  if (p.lead_high == nullptr) return {y, 0, error};
  const Pair product = product_of(y, p.lead_high[label]);
  const double size = std::fabs(p.lead_high[label]);
  if (!(size == 0 || in_range(size))) return {0, 0, kUnknown};
  return {product.high, product.low, (error * size + std::fabs(y * p.lead_low[label])) * 1.01};
}

template <class Real>
Enclosed row_of(const EntropyProblem& p, Index which, double* scratch) {
  Row<Real> row(p, which, scratch);
  if (!row.prepare()) return {0, 0, kUnknown};
  double error;
  const Real y = p.work == EntropyWork::value ? row.value(error) : row.tangent(error);
  using R = RealTraits<Real>;
  const bool good = std::isfinite(error) && (sizeof(Real) == sizeof(double) || size_of(y) < kLargest);
  return {R::high(y), R::low(y), good ? error * (1 + 0x1p-20) : kUnknown};
}

template <class Real>
bool spread_of(const EntropyProblem& p, Index which, double* scratch, const LossReport* report) {
  Row<Real> row(p, which, scratch);
  const Index start = which * p.classes;
  const double g = number_at(p.dtype, p.g, p.by_row ? which : 0);
  bool good = std::isfinite(g) && row.prepare();
  if (sizeof(Real) != sizeof(double)) good = good && (g == 0 || in_range(g));
  good = good && in_range(p.scale[0]);
  if (good && g == 0) {
    for (Index i = 0; i < p.classes; ++i) put_as(p.dtype, 0.0, p.out, start + i);
    return true;
  }
  const auto left = [&](Index i) {
    if (report != nullptr) report->add(report->list, start + i);
    return Index{1};
  };
  if (!good) {
    for (Index i = 0; i < p.classes; ++i) left(i);
    return false;
  }
  return row.spread(real<Real>(g) * RealTraits<Real>::from(p.scale[0], p.scale[1]), left) == 0;
}

// S p h: the softmax of a row times a factor; at the label -S h (the sum of the others) / total. False if something is
// undecided.
bool plain_spread(const EntropyProblem& p, Index which, QuickRow<Kind::value>& row, double* e) {
  const Index n = p.classes, start = which * n, label = p.labels[which];
  const Pair lead = p.lead_high == nullptr ? Pair{1.0, 0.0} : Pair{p.lead_high[label], p.lead_low[label]};
  const double g = number(static_cast<const float*>(p.g)[p.by_row ? which : 0]);
  const double factor = (Pair{g, 0.0} * Pair{p.scale[0], p.scale[1]} * lead).high, size = std::fabs(factor);
  if (!(size > 0x1p-100 && size < 16)) return false;  // exponentials that are taken for zeros do not count
  if (!row.good() || !std::isfinite(row.least())) return false;
  RowForm f = row.form();
  const double relative = (f.high - f.inverse) / f.inverse * 1.01 + 16 * RealTraits<double>::unit;
  const double middle = f.inverse * factor, width = std::fabs(middle) * relative;
  f.low = middle - width;
  f.high = middle + width;
  row.set_form(f);
  Cells undecided;
  row.put(undecided);
  for (Index c = 0; c < undecided.count; ++c)
    if (undecided.count > Cells::capacity || undecided.at[c] != label) return false;
  const double others = sum_without(e, n, label);
  if (!(others > 0x1p-60)) return false;
  const double y = -(others * middle), error = std::fabs(y) * (2 * relative + static_cast<double>(n) * 0x1p-90);
  return decide_signed(p.dtype, Pair{y, 0.0}, error, factor > 0 ? -1.0 : 1.0, p.out, start + label);
}

void spread(const EntropyProblem& p, Index begin, Index end, double* scratch, const LossReport& report) {
  double* const spare = scratch + group_scratch(p.classes);
  const auto in_steps = [&](Index row) {
    if (p.dtype == DType::f64 || !spread_of<double>(p, row, spare, nullptr))
      spread_of<Pair>(p, row, spare, &report);
  };
  const auto left_out = [&](Index row) {
    if (p.labels == nullptr || p.labels[row] >= 0) return false;
    for (Index i = 0; i < p.classes; ++i) put_as(p.dtype, 0.0, p.out, row * p.classes + i);
    return true;
  };
  if (plain(p))
    return in_groups<Kind::value>(p, begin, end, scratch, [&](Index row, QuickRow<Kind::value>& quick, double* e) {
      if (!left_out(row) && !plain_spread(p, row, quick, e)) in_steps(row);
    });
  for (Index row = begin; row < end; ++row)
    if (!left_out(row)) in_steps(row);
}

void rows(const EntropyProblem& p, Index begin, Index end, double* scratch, bool twice, Enclosed* found) {
  const auto left_out = [&](Index row) { return p.labels != nullptr && p.labels[row] < 0; };
  if (!twice && plain(p))
    return in_groups<Kind::log_value>(
        p, begin, end, scratch, [&](Index row, const QuickRow<Kind::log_value>& quick, const double*) {
          found[row - begin] = left_out(row) ? Enclosed{} : plain_row(p, row, quick);
        });
  double* const spare = scratch + group_scratch(p.classes);
  for (Index row = begin; row < end; ++row)
    found[row - begin] = left_out(row) ? Enclosed{}
                         : twice       ? row_of<Pair>(p, row, spare)
                                       : row_of<double>(p, row, spare);
}

bool finish(const EntropyProblem& problem, Index position, const Enclosed& sum) {
  if (!(sum.error < kUnknown) || !std::isfinite(sum.high)) return false;
  if (!in_range(problem.scale[0]) || (sum.high != 0 && !in_range(sum.high))) return false;
  const Pair scale{problem.scale[0], problem.scale[1]};
  const Pair y = Pair{sum.high, sum.low} * scale;
  const double error = sum.error * std::fabs(scale.high) * (1 + 0x1p-20) + 0x1p-95 * size_of(y);
  return decide_as(problem.dtype, y, error, problem.out, position);
}

}  // namespace

const EntropyKernels& entropy_kernels() {
  static const EntropyKernels table{rows, spread, finish};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
