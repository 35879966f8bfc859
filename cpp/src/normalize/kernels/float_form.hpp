// Outputs of float32 in float32 arithmetic: twice as many lanes as in float64, and no conversions. A product x a is
// split on a grid: adding 1.5 2^k to a number of at most 2^(k-1) rounds it to a multiple of 2^(k-23), the high part.
// One fused operation gives what is left, at most 2^(k-24), off by 2^(k-49). High parts are added without error, low
// parts are floats. So results are off by a few units 2^(k-48), see docs/explanation/error-bounds-normalization.md.
// The last addition itself rounds both ends of the interval. For kernels only.
#pragma once

#include "normalize/kernels/form.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using FloatVector = Vector<float>;
using WordVector = Vector<std::uint32_t>;

// A number as the sum of two floats, in all lanes.
struct FloatFactor {
  FloatVector high{}, low{};
  FloatFactor() = default;
  explicit FloatFactor(double x)
      : high(splat(static_cast<float>(x))), low(splat(static_cast<float>(x - number(static_cast<float>(x))))) {}
};

// For sums and terms of at most `most`.
struct Grid {
  double top = 0;  // 2^k
  Grid() = default;
  explicit Grid(double most) {
    const auto bits = std::bit_cast<std::uint64_t>(most * (1 + 0x1p-20));
    top = 2 * std::bit_cast<double>((bits + 0xfffffffffffffULL) & ~0xfffffffffffffULL);
  }
  // Nothing overflows, and errors of underflow are far below a unit.
  bool good() const { return top >= 0x1p-90 && top <= 0x1p126; }
  double unit() const { return top * 0x1p-48; }
  float rounder() const { return static_cast<float>(1.5 * top); }
  // The nearest multiple of 2^(k-23).
  double high(double x) const {
    const double rounder = 1.5 * 0x1p29 * top;
    return (x + rounder) - rounder;
  }
};

// NaN if there is one.
inline double largest_number(const double* x, Index n) {
  Doubles most{}, none{};
  each_vector(n, [&](const auto& read) HALFULP_IN_LINE {
    const Doubles v = read(x, 0.0);
    most = larger_magnitude(v, most);
    none += v - v;
  });
  return largest_lane(most) + sum_of_lanes(none);
}

// Weights and biases of cells as floats, the biases split on two grids: normal forms of at most 8, and of at most 64,
// which all groups of up to 4096 cells have. One error bound for all groups is part of the biases: two units more than
// the largest first grid asks for, for the errors of the form in double.
constexpr double kNormalMost[2] = {8, 64};
inline double cell_error(double largest_weight, const Grid& first, const Grid& last) {
  return 7 * last.unit() + 13 * largest_weight * first.unit();
}
inline void split_weights(CellWeights& weights, Index n, Index stride, float* floats) {
  for (Index i = 0; i < n; ++i) floats[i] = static_cast<float>(weights.weight[i]);
  weights.float_weight = floats;
  for (Index level = 0; level < 2; ++level) {
    const Grid grid(std::fmax(weights.largest[0] * kNormalMost[level], weights.largest[1]));
    float *const shift = floats + (3 * level + 1) * stride, *const lows = shift + stride, *const highs = lows + stride;
    Grid first;
    first.top = 2 * kNormalMost[level];
    const double rounder = 1.5 * grid.top, error = cell_error(weights.largest[0], first, grid) + 2 * grid.unit();
    for (Index i = 0; i < n; ++i) {
      const double high = grid.high(weights.bias[i]);
      shift[i] = static_cast<float>(rounder - high);
      const double rest = weights.bias[i] - high;
      lows[i] = static_cast<float>(rest - error);
      highs[i] = static_cast<float>(rest + error);
    }
    weights.bias_shift[level] = shift;
    weights.bias_low[level] = lows;
    weights.bias_high[level] = highs;
    weights.grids[level] = grid.top;
    weights.cell_errors[level] = error;
  }
}

// Of a vector of cells.
struct CellBias {
  FloatVector shift{}, low{}, high{};
};

// The coefficients of a rule as floats, for |x| <= x_most, ... . `error` is the bound of the form in double.
template <Rule rule>
class FloatForm {
  static constexpr bool kCells = uses_weights(rule), kBoth = rule == Rule::both;

 public:
  static constexpr bool exists = kFused && (rule == Rule::value || rule == Rule::cell_value || kBoth);

  FloatForm() = default;
  FloatForm(const Form& f, double x_most, double t_most, const CellWeights& weights, double error) {
    const double a = kCells ? f.scale : f.across, steep = std::fabs(a), along = kBoth ? std::fabs(f.along) : 0.0;
    const double b = (kCells ? f.shift : f.constant) - f.pivot * a;
    const Grid grid(std::fmax(x_most * steep + t_most * along, std::fabs(b)));
    across_ = FloatFactor(a);
    along_ = FloatFactor(kBoth ? f.along : 0.0);
    rounder_ = splat(grid.rounder());
    const double high = grid.high(b);
    shifted_ = splat(static_cast<float>(1.5 * grid.top - high));
    // Smaller factors have no low part of full precision, larger ones are no floats.
    const auto fits = [](double size) { return size >= 0x1p-90 && size <= 0x1p126; };
    good_ = grid.good() && fits(steep) && (along == 0 || fits(along));
    if constexpr (kCells) {
      const double normal = (x_most * steep + std::fabs(b)) * (1 + 0x1p-20);
      level_ = normal <= kNormalMost[0] ? 0 : 1;
      Grid last;
      last.top = weights.grids[level_];
      last_rounder_ = splat(last.rounder());
      low_ = splat(static_cast<float>(b - high));
      good_ &= normal <= kNormalMost[level_] && last.good();
      good_ &= error + cell_error(weights.largest[0], grid, last) <= weights.cell_errors[level_];
    } else {
      const double all = error + (kBoth ? 10 : 6) * grid.unit();
      high_end_ = splat(static_cast<float>((b - high) + all));
      low_end_ = splat(static_cast<float>((b - high) - all));
      good_ &= all < grid.top * 0x1p-30;
    }
  }
  // The same for neighbouring columns, each with coefficients of its own: kColumnFloats arrays, `stride` apart.
  static constexpr Index kColumnFloats = kBoth ? 8 : 6;
  FloatForm(const float* columns, Index stride)
      : rounder_(load(columns + 2 * stride)),
        shifted_(load(columns + 3 * stride)),
        low_end_(load(columns + 4 * stride)),
        high_end_(load(columns + 5 * stride)) {
    across_.high = load(columns);
    across_.low = load(columns + stride);
    if constexpr (kBoth) {
      along_.high = load(columns + 6 * stride);
      along_.low = load(columns + 7 * stride);
    }
  }
  // Of one column. A form that is not good has ends that never agree.
  void put(float* column, Index stride) const {
    const float none[8] = {0, 0, 1.5f, 1.5f, 0, std::numeric_limits<float>::quiet_NaN(), 0, 0};
    const float own[8] = {across_.high[0], across_.low[0], rounder_[0],     shifted_[0],
                          low_end_[0],     high_end_[0],   along_.high[0], along_.low[0]};
    for (Index i = 0; i < kColumnFloats; ++i) column[i * stride] = good_ ? own[i] : none[i];
  }
  bool good() const { return good_; }
  int level() const { return level_; }

  // Some vectors of results, the high ends; ends that differ leave bits in `odd`. If the magnitudes of cells are not
  // known, sums that leave the grid have another exponent, which is kept for exponents(); infinities and NaN, too. The
  // steps of one vector wait for each other, so those of all are taken in turn.
  template <bool known, int count>
  HALFULP_ALWAYS_INLINE void values(const FloatVector (&x)[count], const FloatVector (&t)[count],
                                    const FloatVector (&w)[count], const CellBias (&bias)[count],
                                    FloatVector (&results)[count], WordVector& odd, WordVector& beyond) const {
    FloatVector sum[count], low[count], less[count], product[count];
    const auto each = [](const auto& step) HALFULP_IN_LINE {
HALFULP_UNROLL(8)
      for (int j = 0; j < count; ++j) step(j);
    };
    const auto look = [&](int j) HALFULP_IN_LINE {
      if constexpr (!known) beyond |= reinterpret<WordVector>(sum[j]) ^ reinterpret<WordVector>(rounder_);
    };
    each([&](int j) HALFULP_IN_LINE { sum[j] = multiply_add(x[j], across_.high, rounder_); });
    each([&](int j) HALFULP_IN_LINE { low[j] = rounder_ - sum[j]; });
    each([&](int j) HALFULP_IN_LINE { low[j] = multiply_add(x[j], across_.high, low[j]); });
    each(look);
    if constexpr (kCells) {
      each([&](int j) HALFULP_IN_LINE { sum[j] -= shifted_; });
      each([&](int j) HALFULP_IN_LINE { product[j] = multiply_add(sum[j], w[j], last_rounder_); });
      each([&](int j) HALFULP_IN_LINE { less[j] = multiply_add(x[j], across_.low, low_); });
      each([&](int j) HALFULP_IN_LINE { low[j] += less[j]; });
      each([&](int j) HALFULP_IN_LINE { less[j] = last_rounder_ - product[j]; });
      each([&](int j) HALFULP_IN_LINE { less[j] = multiply_add(sum[j], w[j], less[j]); });
      each([&](int j) HALFULP_IN_LINE { low[j] = multiply_add(low[j], w[j], less[j]); });
      each([&](int j) HALFULP_IN_LINE { product[j] -= bias[j].shift; });
      each([&](int j) HALFULP_IN_LINE {
        results[j] = round_ends(product[j], FloatVector(low[j] + bias[j].low), FloatVector(low[j] + bias[j].high), odd);
      });
    } else {
      each([&](int j) HALFULP_IN_LINE { low[j] = multiply_add(x[j], across_.low, low[j]); });
      if constexpr (kBoth) {
        each([&](int j) HALFULP_IN_LINE { product[j] = multiply_add(t[j], along_.high, sum[j]); });
        each([&](int j) HALFULP_IN_LINE { less[j] = sum[j] - product[j]; });
        each([&](int j) HALFULP_IN_LINE { less[j] = multiply_add(t[j], along_.high, less[j]); });
        each([&](int j) HALFULP_IN_LINE { less[j] = multiply_add(t[j], along_.low, less[j]); });
        each([&](int j) HALFULP_IN_LINE { low[j] += less[j]; });
        each([&](int j) HALFULP_IN_LINE { sum[j] = product[j]; });
        each(look);
      }
      each([&](int j) HALFULP_IN_LINE { sum[j] -= shifted_; });
      each([&](int j) HALFULP_IN_LINE {
        results[j] = round_ends(sum[j], FloatVector(low[j] + low_end_), FloatVector(low[j] + high_end_), odd);
      });
    }
  }
  static HALFULP_ALWAYS_INLINE WordVector exponents(const WordVector& beyond) { return beyond & 0xff800000u; }

 private:
  static HALFULP_ALWAYS_INLINE FloatVector round_ends(const FloatVector& high, const FloatVector& low_end,
                                                      const FloatVector& high_end, WordVector& odd) {
    const FloatVector result = high + high_end;
    odd |= reinterpret<WordVector>(result) ^ reinterpret<WordVector>(FloatVector(high + low_end));
    return result;
  }

  FloatFactor across_, along_;
  FloatVector rounder_{}, shifted_{}, low_end_{}, high_end_{}, low_{}, last_rounder_{};
  int level_ = 0;
  bool good_ = false;
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
