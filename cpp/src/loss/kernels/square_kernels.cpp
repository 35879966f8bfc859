// Sums of squares and of products, see halfulp/loss.hpp: in double first (float64 in pairs of doubles), the rest in
// pairs.
#include "loss/loss_kernels.hpp"

#include <cmath>
#include <limits>

#include "normalize/kernels/decide.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

enum class Other { own, t, minus_s, difference, by_cell, by_row };  // what b is

Other other_of(const SquareProblem& p) {
  if (p.g != nullptr) return p.g_by_row ? Other::by_row : Other::by_cell;
  if (p.t != nullptr) return p.s != nullptr ? Other::difference : Other::t;
  return p.s != nullptr ? Other::minus_s : Other::own;
}

HALFULP_ALWAYS_INLINE bool in_range(double x) {
  return (x == 0) | ((std::fabs(x) > kSmallest) & (std::fabs(x) < kLargest));
}

// The numbers of a row. `mean` is what is subtracted where there is no y, in two parts: a pivot and the rest.
template <class T, class Real, bool Centred, Other other>
struct Cells {
  const T *x, *y, *t, *s, *g;
  double pivot = 0;

  Cells(const SquareProblem& p, Index row)
      : x(at(p.x, row * p.length)),
        y(at(p.y, row * p.length)),
        t(at(p.t, row * p.length)),
        s(at(p.s, row * p.length)),
        g(at(p.g, p.g_by_row ? row : row * p.length)) {}

  static const T* at(const void* data, Index offset) {
    return data == nullptr ? nullptr : static_cast<const T*>(data) + offset;
  }
  HALFULP_ALWAYS_INLINE Real a(Index i) const {
    return difference(number(x[i]), Centred ? pivot : number(y[i]), static_cast<Real*>(nullptr));
  }
  HALFULP_ALWAYS_INLINE Real b(Index i) const {
    if constexpr (other == Other::own) return a(i);
    else if constexpr (other == Other::t) return real<Real>(number(t[i]));
    else if constexpr (other == Other::minus_s) return real<Real>(-number(s[i]));
    else if constexpr (other == Other::difference)
      return difference(number(t[i]), number(s[i]), static_cast<Real*>(nullptr));
    else return real<Real>(number(other == Other::by_row ? g[0] : g[i]));
  }
};

// Partial sums of pairs: one chain of additions would wait for itself.
struct PairLanes {
  double high[kLanes16] = {}, low[kLanes16] = {}, size[kLanes16] = {};

  HALFULP_ALWAYS_INLINE void add(const Pair& x, int l) {
    const Pair sum = Pair{high[l], low[l]} + x;
    high[l] = sum.high;
    low[l] = sum.low;
    size[l] += std::fabs(x.high);
  }
  void total(Pair& sum, double& sizes) const {
    for (int l = 0; l < kLanes16; ++l) {
      sum = sum + Pair{high[l], low[l]};
      sizes += size[l];
    }
  }
};

// Sums of a, b and a b over cells [begin, end), and of their magnitudes. Terms are rounded three times at most.
template <class Real>
struct Sums {
  Pair ab{0, 0}, a{0, 0}, b{0, 0};
  double ab_size = 0, a_size = 0, b_size = 0;
  bool good = true;

  template <bool Products, bool Means, class C>
  void add(const C& cells, Index begin, Index end) {
    if constexpr (sizeof(Real) == sizeof(double)) {
      for (Index from = begin; from < end; from += kBlock) {
        const Index stop = end - from < kBlock ? end - from : kBlock, whole = stop / kLanes16 * kLanes16;
        Lanes sums[3], sizes[3];
        const auto one = [&](Index i, int l) {
          const double a = cells.a(i);
          if constexpr (Means) {
            sums[1].lane[l] += a;
            sizes[1].lane[l] += std::fabs(a);
          }
          if constexpr (Products) {
            const double b = cells.b(i), ab = a * b;
            sums[0].lane[l] += ab;
            sizes[0].lane[l] += std::fabs(ab);
            if constexpr (Means) {
              sums[2].lane[l] += b;
              sizes[2].lane[l] += std::fabs(b);
            }
          }
        };
        for (Index i = 0; i < whole; i += kLanes16)
          for (int l = 0; l < kLanes16; ++l) one(from + i + l, l);
        for (Index i = whole; i < stop; ++i) one(from + i, static_cast<int>(i - whole));
        if constexpr (Products) {
          ab = with(ab, sums[0].sum());
          ab_size += sizes[0].sum();
        }
        if constexpr (Means) {
          a = with(a, sums[1].sum());
          a_size += sizes[1].sum();
        }
        if constexpr (Products && Means) {
          b = with(b, sums[2].sum());
          b_size += sizes[2].sum();
        }
      }
    } else {
      PairLanes products, means, others;
      const Index whole = begin + (end - begin) / kLanes16 * kLanes16;
      const auto one = [&](Index i, int l) {
        const Pair own = cells.a(i);
        int odd = in_range(own.high) ? 0 : 1;
        if constexpr (Means) means.add(own, l);
        if constexpr (Products) {
          const Pair other = cells.b(i);
          odd |= in_range(other.high) ? 0 : 1;
          products.add(own * other, l);
          if constexpr (Means) others.add(other, l);
        }
        return odd;
      };
      int strange = 0;
      for (Index i = begin; i < whole; i += kLanes16)
        for (int l = 0; l < kLanes16; ++l) strange |= one(i + l, l);
      for (Index i = whole; i < end; ++i) strange |= one(i, static_cast<int>(i - whole));
      good = good && strange == 0;
      products.total(ab, ab_size);
      means.total(a, a_size);
      others.total(b, b_size);
    }
  }
};

Enclosed enclosed(Pair y, double error, bool good) {
  return {y.high, y.low, good ? error * (1 + 0x1p-20) : std::numeric_limits<double>::infinity()};
}

template <class T, class Real, Other other>
Enclosed part_of(const SquareProblem& p, Index row, Index begin, Index end) {
  Sums<Real> sums;
  sums.template add<true, false>(Cells<T, Real, false, other>(p, row), begin, end);
  return enclosed(sums.ab, sums.ab_size * (sum_error<Real>(end - begin) + 4 * RealTraits<Real>::unit), sums.good);
}

// A pivot near the mean: of the first cells, then of all.
template <bool Products, class T, class Real, Other other>
Sums<Real> centred_sums(Cells<T, Real, true, other>& cells, Index n) {
  double sum = 0;
  const Index head = n < 64 ? n : 64;
  for (Index i = 0; i < head; ++i) sum += number(cells.x[i]);
  cells.pivot = static_cast<double>(static_cast<float>(sum / static_cast<double>(head)));
  if (!std::isfinite(cells.pivot)) cells.pivot = number(cells.x[0]);
  Sums<Real> sums;
  for (int attempt = 0; attempt < 2; ++attempt) {
    sums = Sums<Real>();
    sums.template add<Products, true>(cells, 0, n);
    const double shift = sums.a.high / static_cast<double>(n);
    if (attempt == 1 || !(std::fabs(shift) * static_cast<double>(n) > sums.a_size / 2)) break;
    const double moved = static_cast<double>(static_cast<float>(cells.pivot + shift));
    if (!std::isfinite(moved) || moved == cells.pivot) break;
    cells.pivot = moved;
  }
  return sums;
}

// The mean of a, and a bound of its error.
template <class Real>
Pair mean_of(const Sums<Real>& sums, Index n, double& error) {
  const double count = static_cast<double>(n);
  const Pair delta = sums.a / Pair{count, 0.0};
  error = sum_error<Real>(n) * (sums.a_size / count) + 0x1p-97 * size_of(delta);
  return delta;
}

// sum(a b) - mean(a) sum(b)
template <class T, class Real>
Enclosed centred_of(const SquareProblem& p, Index row) {
  Cells<T, Real, true, Other::t> cells(p, row);
  const Sums<Real> sums = centred_sums<true>(cells, p.length);
  double off;
  const Pair delta = mean_of(sums, p.length, off);
  const Pair y = sums.ab - delta * sums.b;
  const double k = sum_error<Real>(p.length) + 4 * RealTraits<Real>::unit;
  const double error = k * sums.ab_size + off * (size_of(sums.b) + k * sums.b_size) + size_of(delta) * k * sums.b_size +
                       0x1p-96 * (size_of(sums.ab) + size_of(delta) * size_of(sums.b));
  return enclosed(y, error, sums.good);
}

// factor / divisor times a b, cell by cell.
template <class T, class Real, bool Centred, Other other>
class Each {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Each(const SquareProblem& p, Index row) : cells_(p, row), p_(p) {
    scale_ = real<Real>(p.factor) / real<Real>(p.divisor);
    exact_scale_ = std::fabs(std::frexp(p.divisor, &exponent_)) == 0.5;
    if constexpr (Centred) {
      const Sums<Real> sums = centred_sums<false>(cells_, p.length);
      const Pair delta = mean_of(sums, p.length, off_);
      delta_ = R::from(delta.high, delta.low);
      if (sizeof(Real) == sizeof(double)) off_ += std::fabs(delta.low);
      good_ = sums.good;
    }
  }

  HALFULP_ALWAYS_INLINE bool one(Index i, T& result) const {
    const Real a = cells_.a(i), b = cells_.b(i);
    if constexpr (Centred) {
      const Real c = a + negated(delta_);
      const Real y = c * b * scale_;
      const double error = (off_ + 2 * u * (size_of(a) + size_of(delta_))) * size_of(b * scale_) * 1.01 +
                           8 * u * size_of(y);
      return decide(y, error, result);
    } else {
      const Real y = a * b * scale_;
      double error = 8 * u * size_of(y);
      if constexpr (sizeof(Real) == sizeof(double)) {
        const bool whole = product_of(a, b).low == 0;
        error = (exact_scale_ & whole & exact_a(i, a) & exact_b(i, b)) ? 0.0 : error;
      }
      return decide(y, error, result);
    }
  }
  // Whether pairs of doubles can be trusted with a cell.
  bool trusted(Index i) const {
    return good_ && in_range(size_of(cells_.a(i))) && in_range(size_of(cells_.b(i))) && in_range(size_of(delta_));
  }

 private:
  HALFULP_ALWAYS_INLINE bool exact_a(Index i, double a) const {
    return lost(number(cells_.x[i]), number(cells_.y[i]), a) == 0;
  }
  HALFULP_ALWAYS_INLINE bool exact_b(Index i, double b) const {
    if constexpr (other == Other::difference) return lost(number(cells_.t[i]), number(cells_.s[i]), b) == 0;
    return true;
  }
  // What a - b lost in its rounding to d.
  static HALFULP_ALWAYS_INLINE double lost(double a, double b, double d) {
    const double from_b = d - a, from_a = d - from_b;
    return (a - from_a) + (-b - from_b);
  }

  Cells<T, Real, Centred, other> cells_;
  const SquareProblem& p_;
  Real scale_{}, delta_{};
  double off_ = 0;
  int exponent_ = 0;
  bool exact_scale_ = false, good_ = true;
};

template <class T, bool Centred, Other other>
void cells_of(const SquareProblem& p, Index row, Index begin, Index end, const LossReport& report) {
  T* const out = static_cast<T*>(p.out) + row * p.length;
  if constexpr (sizeof(T) < sizeof(double)) {
    const Each<T, double, Centred, other> each(p, row);
    Index unsure = 0;
    for (Index i = begin; i < end; ++i) unsure += each.one(i, out[i]) ? 0 : 1;
    if (unsure == 0) return;
    const Each<T, Pair, Centred, other> again(p, row);
    for (Index i = begin; i < end; ++i) {
      if (each.one(i, out[i]) || (again.trusted(i) && again.one(i, out[i]))) continue;
      report.add(report.list, row * p.length + i);
    }
  } else {
    const Each<T, Pair, Centred, other> each(p, row);
    for (Index i = begin; i < end; ++i)
      if (!(each.trusted(i) && each.one(i, out[i]))) report.add(report.list, row * p.length + i);
  }
}

template <class T, class Real>
Enclosed any_part(const SquareProblem& p, Index row, Index begin, Index end) {
  switch (other_of(p)) {
    case Other::t: return part_of<T, Real, Other::t>(p, row, begin, end);
    case Other::minus_s: return part_of<T, Real, Other::minus_s>(p, row, begin, end);
    case Other::difference: return part_of<T, Real, Other::difference>(p, row, begin, end);
    default: return part_of<T, Real, Other::own>(p, row, begin, end);
  }
}

template <class T>
void any_cells(const SquareProblem& p, Index row, Index begin, Index end, const LossReport& report) {
  if (p.y == nullptr) return cells_of<T, true, Other::by_row>(p, row, begin, end, report);
  switch (other_of(p)) {
    case Other::t: return cells_of<T, false, Other::t>(p, row, begin, end, report);
    case Other::minus_s: return cells_of<T, false, Other::minus_s>(p, row, begin, end, report);
    case Other::difference: return cells_of<T, false, Other::difference>(p, row, begin, end, report);
    case Other::by_cell: return cells_of<T, false, Other::by_cell>(p, row, begin, end, report);
    case Other::by_row: return cells_of<T, false, Other::by_row>(p, row, begin, end, report);
    default: return cells_of<T, false, Other::own>(p, row, begin, end, report);
  }
}

Enclosed part(const SquareProblem& problem, Index row, Index begin, Index end, bool twice) {
  return visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    return twice ? any_part<T, Pair>(problem, row, begin, end) : any_part<T, double>(problem, row, begin, end);
  });
}

Enclosed centred(const SquareProblem& problem, Index row, bool twice) {
  return visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    return twice ? centred_of<T, Pair>(problem, row) : centred_of<T, double>(problem, row);
  });
}

bool finish(const SquareProblem& problem, Index row, const Enclosed& sum) {
  return visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!std::isfinite(sum.high) || !std::isfinite(sum.error) || !in_range(sum.high)) return false;
    const double scale = std::fabs(problem.factor / problem.divisor);
    const Pair y = Pair{sum.high, sum.low} * Pair{problem.factor, 0.0} / Pair{problem.divisor, 0.0};
    const double error = sum.error * scale * (1 + 0x1p-20) + 0x1p-96 * size_of(y);
    return decide(y, error, static_cast<T*>(problem.out)[row]);
  });
}

void cells(const SquareProblem& problem, Index row, Index begin, Index end, const LossReport& report) {
  visit_float(problem.dtype, [&](auto zero) { any_cells<decltype(zero)>(problem, row, begin, end, report); });
}

}  // namespace

const SquareKernels& square_kernels() {
  static const SquareKernels table{part, centred, finish, cells};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
