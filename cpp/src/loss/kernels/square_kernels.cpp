// Sums of squares and of products, see halfulp/loss.hpp: in double first (float64 in pairs of doubles), the rest in
// pairs.
#include "loss/loss_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "normalize/kernels/cells.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

HALFULP_ALWAYS_INLINE bool in_range(double x) {
  return (x == 0) | ((std::fabs(x) > kSmallest) & (std::fabs(x) < kLargest));
}

HALFULP_ALWAYS_INLINE Vector<std::int64_t> in_range(const Doubles& x) {
  const Doubles size = magnitude(x);
  return (size == Doubles{}) | ((size > splat(kSmallest)) & (size < splat(kLargest)));
}

// x - y exactly: the difference and, where asked for, what its rounding lost.
HALFULP_NOINLINE void differences(DType dtype, const void* x, const void* y, Index start, Index n,
                                           double* high, double* low) {
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *const a = static_cast<const T*>(x) + start, *const b = static_cast<const T*>(y) + start;
    if (low == nullptr) {
      for (Index i = 0; i < n; ++i) high[i] = number(a[i]) - number(b[i]);
      return;
    }
    for (Index i = 0; i < n; ++i) {
      const Pair d = difference(number(a[i]), number(b[i]), static_cast<Pair*>(nullptr));
      high[i] = d.high;
      low[i] = d.low;
    }
  });
}

// The numbers a and b of a row, some at a time. Where there is no y, the pivot is subtracted.
class Cells {
 public:
  Cells(const SquareProblem& p, Index row) : p_(p), row_(row) {}

  double pivot = 0;
  double a[kBlock + 24], a_low[kBlock + 24], b_own[kBlock + 24], b_low[kBlock + 24];  // no multiple of a page apart
  const double* b = nullptr;

  // Of cells [at, at + n), n <= kBlock; with what the differences lost, where asked for.
  void load(Index at, Index n, bool low, bool products) {
    const Index start = row_ * p_.length + at;
    const Index full = (n + kLanes16 - 1) / kLanes16 * kLanes16;  // with zeros up to there
    const auto fill = [&](double* array) { std::fill(array + n, array + full, 0.0); };
    if (p_.y != nullptr) {
      differences(p_.dtype, p_.x, p_.y, start, n, a, low ? a_low : nullptr);
    } else {
      widen_to(a, p_.dtype, p_.x, start, n);
      for (Index i = 0; i < n; ++i) {
        const Pair d = difference(a[i], pivot, static_cast<Pair*>(nullptr));
        a[i] = d.high;
        a_low[i] = d.low;
      }
    }
    fill(a);
    fill(a_low);
    if (!products) return;
    b = b_own;
    fill(b_own);
    if (p_.g != nullptr || p_.t == nullptr || p_.s == nullptr) std::fill_n(b_low, full, 0.0);
    else fill(b_low);
    if (p_.g != nullptr) {
      if (p_.g_by_row) std::fill_n(b_own, n, number_at(p_.dtype, p_.g, row_));
      else widen_to(b_own, p_.dtype, p_.g, start, n);
    } else if (p_.t != nullptr && p_.s != nullptr) {
      differences(p_.dtype, p_.t, p_.s, start, n, b_own, low ? b_low : nullptr);
    } else if (p_.t != nullptr || p_.s != nullptr) {
      widen_to(b_own, p_.dtype, p_.t != nullptr ? p_.t : p_.s, start, n);
      for (Index i = 0; i < n && p_.t == nullptr; ++i) b_own[i] = -b_own[i];
    } else {
      b = a;
      std::copy_n(a_low, low ? n : 0, b_low);
    }
  }

 private:
  const SquareProblem& p_;
  Index row_;
};

// Sums of a, b and a b over cells [begin, end), and of their magnitudes, in 16 chains. Terms are rounded three times at
// most.
template <class Real>
struct Sums {
  static constexpr bool kPairs = sizeof(Real) != sizeof(double);
  using In = std::conditional_t<kPairs, double, float>;

  Pair ab{0, 0}, a{0, 0}, b{0, 0};
  double ab_size = 0, a_size = 0, b_size = 0;
  bool good = true;

  template <bool Products, bool Means>
  void add(Cells& cells, Index begin, Index end) {
    for (Index from = begin; from < end; from += kBlock) {
      const Index count = end - from < kBlock ? end - from : kBlock;
      cells.load(from, count, kPairs, Products);
      const auto numbers = [](const double* high, const double* low) HALFULP_IN_LINE {
        return [=](Index at) HALFULP_IN_LINE {
          return PairOf<Doubles>{load(high + at), kPairs ? load(low + at) : Doubles{}};
        };
      };
      add_block<Products, Means>(count, numbers(cells.a, cells.a_low), numbers(cells.b, cells.b_low));
    }
  }
  // The squares of x - y, n a multiple of 16, without a copy. Only up to kBlock at a time.
  void add_squares(const In* x, const In* y, Index n) {
    const auto own = [=](Index at) HALFULP_IN_LINE {
      const Doubles a = load_doubles(x + at), b = load_doubles(y + at);
      if constexpr (kPairs) return sum_of(a, Doubles(-b));
      else return PairOf<Doubles>{a - b, Doubles{}};
    };
    for (Index from = 0; from < n; from += kBlock) {
      const auto shifted = [=](Index at) HALFULP_IN_LINE { return own(from + at); };
      add_block<true, false>(n - from < kBlock ? n - from : kBlock, shifted, nullptr);
    }
  }

 private:
  static constexpr int kChains = kLanes16 / kWide;

  // One of the three sums.
  struct Chains {
    Doubles high[kChains]{}, low[kChains]{}, sizes[kChains]{};

    HALFULP_ALWAYS_INLINE void add(const PairOf<Doubles>& x, int chain) {
      sizes[chain] += magnitude(x.high);
      if constexpr (kPairs) {
        const PairOf<Doubles> sum = PairOf<Doubles>{high[chain], low[chain]} + x;
        high[chain] = sum.high;
        low[chain] = sum.low;
      } else {
        high[chain] += x.high;
      }
    }
    void total(Pair& sum, double& size) const {
      double block = 0;
      for (int chain = 0; chain < kChains; ++chain) {
        if constexpr (!kPairs) block += sum_of_lanes(high[chain]);
        for (int lane = 0; lane < kWide && kPairs; ++lane) sum = sum + Pair{high[chain][lane], low[chain][lane]};
        size += sum_of_lanes(sizes[chain]);
      }
      if constexpr (!kPairs) sum = with(sum, block);
    }
  };

  // A missing b is a.
  template <bool Products, bool Means, class A, class B>
  HALFULP_NOINLINE void add_block(Index n, const A read_a, const B read_b) {
    constexpr bool squares = std::is_same_v<B, std::nullptr_t>;
    Chains products, means, others;
    Vector<std::int64_t> trusted = ~Vector<std::int64_t>{};
    const auto step = [&](Index at, auto chain) HALFULP_IN_LINE {
      const PairOf<Doubles> own = read_a(at);
      if constexpr (kPairs) trusted &= in_range(own.high);
      if constexpr (Means) means.add(own, chain);
      if constexpr (Products) {
        PairOf<Doubles> other = own;
        if constexpr (!squares) other = read_b(at);
        if constexpr (kPairs && !squares) trusted &= in_range(other.high);
        if constexpr (kPairs) products.add(own * other, chain);
        else products.add({own.high * other.high, Doubles{}}, chain);
        if constexpr (Means) others.add(other, chain);
      }
    };
    // Indices of chains that are constants keep the sums in registers.
    const auto steps = [&]<int... C>(Index at, std::integer_sequence<int, C...>) HALFULP_IN_LINE {
      (step(at + C * kWide, std::integral_constant<int, C>{}), ...);
    };
    for (Index i = 0; i < n; i += kLanes16)  // zeros fill the last ones
      steps(i, std::make_integer_sequence<int, kChains>{});
    good = good && all_lanes(trusted);
    products.total(ab, ab_size);
    means.total(a, a_size);
    others.total(b, b_size);
  }
};

Enclosed enclosed(Pair y, double error, bool good) {
  return {y.high, y.low, good ? error * (1 + 0x1p-20) : std::numeric_limits<double>::infinity()};
}

template <class Real>
Enclosed part_of(const SquareProblem& p, Index row, Index begin, Index end) {
  Sums<Real> sums;
  const Index size = end - begin;
  using In = typename Sums<Real>::In;
  if (p.dtype == dtype_of<In> && p.t == nullptr && p.s == nullptr) {
    const auto at = [&](const void* x) { return static_cast<const In*>(x) + row * p.length + begin; };
    sums.add_squares(at(p.x), at(p.y), size / kLanes16 * kLanes16);
    begin = end - size % kLanes16;
  }
  Cells cells(p, row);
  sums.template add<true, false>(cells, begin, end);
  return enclosed(sums.ab, sums.ab_size * (sum_error<Real>(size) + 4 * RealTraits<Real>::unit), sums.good);
}

// A pivot near the mean: of the first cells, then of all.
template <bool Products, class Real>
Sums<Real> centred_sums(const SquareProblem& p, Index row, Cells& cells) {
  double sum = 0;
  const Index n = p.length, head = n < 64 ? n : 64;
  for (Index i = 0; i < head; ++i) sum += number_at(p.dtype, p.x, row * n + i);
  cells.pivot = static_cast<double>(static_cast<float>(sum / static_cast<double>(head)));
  if (!std::isfinite(cells.pivot)) cells.pivot = number_at(p.dtype, p.x, row * n);
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
template <class Real>
Enclosed centred_of(const SquareProblem& p, Index row) {
  Cells cells(p, row);
  const Sums<Real> sums = centred_sums<true, Real>(p, row, cells);
  double off;
  const Pair delta = mean_of(sums, p.length, off);
  const Pair y = sums.ab - delta * sums.b;
  const double k = sum_error<Real>(p.length) + 4 * RealTraits<Real>::unit;
  const double error = k * sums.ab_size + off * (size_of(sums.b) + k * sums.b_size) + size_of(delta) * k * sums.b_size +
                       0x1p-96 * (size_of(sums.ab) + size_of(delta) * size_of(sums.b));
  return enclosed(y, error, sums.good);
}

// factor / divisor times a b, cell by cell, in one kind of number.
template <class Real>
class Each {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Each(const SquareProblem& p, Index row, Cells& cells) : cells_(cells) {
    scale_ = real<Real>(p.factor) / real<Real>(p.divisor);
    int exponent;
    exact_scale_ = p.y != nullptr && std::fabs(std::frexp(p.divisor, &exponent)) == 0.5;
    if (p.y != nullptr) return;
    const Sums<Real> sums = centred_sums<false, Real>(p, row, cells);
    const Pair delta = mean_of(sums, p.length, off_);
    delta_ = R::from(delta.high, delta.low);
    if (sizeof(Real) == sizeof(double)) off_ += std::fabs(delta.low);
    own_error_ = 2 * u;
    good_ = sums.good;
    pivot_ = cells.pivot;
  }

  double pivot() const { return pivot_; }

  // The result of a loaded cell in pairs, and what bounds its error.
  Pair one(Index i, double& error) const {
    const Pair a{cells_.a[i], cells_.a_low[i]}, b{cells_.b[i], cells_.b_low[i]};
    const Pair y = (a + -delta_) * b * scale_;
    error = (off_ + own_error_ * (size_of(a) + size_of(delta_))) * size_of(b * scale_) * 1.01 + 8 * u * size_of(y);
    return y;
  }
  // Both ends of the results of n loaded cells in double. The error is zero where all of the product is exact. With a
  // position for floats, the ends are rounded as well; false if they differ.
  HALFULP_NOINLINE bool ends(Index n, double* lows, double* highs, float* out) const {
    Ends<float> rounded;
    const Doubles delta = splat(delta_), scale = splat(scale_), zero{};
    const Doubles off = splat(off_ + own_error_ * std::fabs(delta_)), own_error = splat(own_error_);
    const Doubles never = splat(exact_scale_ ? 0.0 : 1.0);
    for (Index i = 0; i < n; i += kWide) {
      const Doubles a = load(cells_.a + i), b = load(cells_.b + i);
      const Doubles y = (a - delta) * b * scale;
      const Doubles own = multiply_add(magnitude(a), own_error, off);
      const Doubles error = own * magnitude(b * scale) * 1.01 + magnitude(y) * (8 * u);
      const Doubles lost = magnitude(product_of(a, b).low) + magnitude(load(cells_.a_low + i));
      const Doubles bound = select(lost + magnitude(load(cells_.b_low + i)) + never == zero, zero, error);
      const Doubles low = (y - bound) + 0.0, high = (y + bound) + 0.0;  // zeros are positive
      store(lows + i, low);
      store(highs + i, high);
      if (out == nullptr) continue;
      rounded.require_finite(high);
      if (i + kWide <= n) rounded.put(out + i, low, high);
      else rounded.put_first(out + i, low, high, n - i);
    }
    return out != nullptr && !rounded.differ();
  }
  // Whether pairs of doubles can be trusted with a cell.
  bool trusted(Index i) const {
    return good_ && in_range(cells_.a[i]) && in_range(cells_.b[i]) && in_range(size_of(delta_));
  }

 private:
  const Cells& cells_;
  Real scale_{}, delta_{};
  double off_ = 0, own_error_ = 0, pivot_ = 0;
  bool exact_scale_ = false, good_ = true;
};

void cells(const SquareProblem& p, Index row, Index begin, Index end, const LossReport& report) {
  Cells numbers(p, row);
  const bool wide = p.dtype == DType::f64;
  std::optional<Each<double>> quick;
  std::optional<Each<Pair>> pairs;
  if (!wide) quick.emplace(p, row, numbers);
  double lows[kBlock], highs[kBlock];
  for (Index at = begin; at < end; at += kBlock) {
    const Index count = end - at < kBlock ? end - at : kBlock, start = row * p.length + at;
    if (!wide) {
      numbers.pivot = quick->pivot();
      numbers.load(at, count, true, true);
      float* const floats = p.dtype == DType::f32 ? static_cast<float*>(p.out) + start : nullptr;
      if (quick->ends(count, lows, highs, floats)) continue;
      if (round_all_ends(p.dtype, lows, highs, count, p.out, start) == 0) continue;
    }
    if (!pairs) pairs.emplace(p, row, numbers);
    numbers.pivot = pairs->pivot();
    numbers.load(at, count, true, true);
    for (Index i = 0; i < count; ++i) {
      if (!wide && round_ends(p.dtype, lows[i], highs[i], p.out, start + i)) continue;
      double error;
      const Pair y = pairs->one(i, error);
      if (!pairs->trusted(i) || !decide_as(p.dtype, y, error, p.out, start + i)) report.add(report.list, start + i);
    }
  }
}

Enclosed part(const SquareProblem& problem, Index row, Index begin, Index end, bool twice) {
  return twice ? part_of<Pair>(problem, row, begin, end) : part_of<double>(problem, row, begin, end);
}

Enclosed centred(const SquareProblem& problem, Index row, bool twice) {
  return twice ? centred_of<Pair>(problem, row) : centred_of<double>(problem, row);
}

bool finish(const SquareProblem& problem, Index row, const Enclosed& sum) {
  if (!std::isfinite(sum.high) || !std::isfinite(sum.error) || !in_range(sum.high)) return false;
  const double scale = std::fabs(problem.factor / problem.divisor);
  const Pair y = Pair{sum.high, sum.low} * Pair{problem.factor, 0.0} / Pair{problem.divisor, 0.0};
  const double error = sum.error * scale * (1 + 0x1p-20) + 0x1p-96 * size_of(y);
  return decide_as(problem.dtype, y, error, problem.out, row);
}

}  // namespace

const SquareKernels& square_kernels() {
  static const SquareKernels table{part, centred, finish, cells};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
