// The outputs that a fast sum could not decide: their terms are walked one by one. Most are decided by a twofold sum
// with its own bound; the rest by exact arithmetic. The proofs stand in docs/explanation/error-bounds-convolution.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "conv/elements.hpp"
#include "conv/plan.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/interrupt.hpp"

namespace halfulp::conv {

// Whether all numbers between the two round to one number of the type.
inline bool same_rounding_in(DType dtype, double low, double high) {
  return visit_float(dtype, [&]<class T>(T) { return same_rounding<T>(low, high); });
}

// Rounds high + low, a twofold sum of exact products whose magnitudes add up to `size`. The sum lies within
// D^2 2^-105 size of high + low, where D additions are the most that a term passes through. Where that leaves no doubt,
// `high` moved to an odd neighbour in the direction of `low` rounds as the exact sum does.
bool round_twofold(double high, double low, double size, double additions, const Outputs& result);

// n pairs of elements.
struct Pairs {
  Elements a;
  Index a_stride;
  Elements b;
  Index b_stride;
  Index n;

  // Calls f(a, b) until it returns false.
  template <class F>
  bool one_by_one(const F& f) const {
    constexpr Index most = 16;
    double x[most], y[most];
    for (Index first = 0; first < n; first += most) {
      const Index count = std::min(most, n - first);
      (a + first * a_stride).load(a_stride, count, x);
      (b + first * b_stride).load(b_stride, count, y);
      for (Index i = 0; i < count; ++i)
        if (!f(x[i], y[i])) return false;
    }
    return true;
  }
};

// A sum of doubles and what it lost, high + low, with the magnitudes of the terms beside it. Terms are kept until there
// is a block of them and then added in lanes of their own: one addition need not wait for the one before.
class TwofoldTerms {
 public:
  void add(double x) {
    waiting_[waiting_count_++] = x;
    if (waiting_count_ == kBlock) add_block();
  }
  void add_products(const Pairs& pairs);  // which must be exact
  bool round(const Outputs& result);

 private:
  static constexpr int kWidth = 8, kBlock = 64;
  static constexpr int kFold = 64;  // blocks that are added up before they join the rest

  void add_block();
  void fold();

  double high_[kWidth] = {}, low_[kWidth] = {}, size_[kWidth] = {};
  double total_high_[kWidth] = {}, total_low_[kWidth] = {};
  double waiting_[kBlock];
  int waiting_count_ = 0, blocks_ = 0;
  double folds_ = 0;
};

// Decides about a sum that came out as zero, term by term: the sum of an exact zero is +0 unless every term is -0.
class ZeroTerms {
 public:
  // `exact` says that the zero is the exact sum, whatever the terms are.
  ZeroTerms(bool exact, bool has_bias, double bias) : exact_(exact), any_(has_bias) {
    if (has_bias) look_at(bias, 1.0);
  }

  // Whether the next term can still change the answer.
  bool look_at(double a, double b) {
    any_ = true;
    const bool zero = (a == 0 || b == 0) && a * b == 0;
    all_zero_ = all_zero_ && zero;
    negative_ = negative_ && zero && std::signbit(a * b);
    return exact_ ? negative_ : all_zero_;
  }
  bool known() const { return exact_ || all_zero_; }
  double sum() const { return any_ && negative_ ? -0.0 : 0.0; }

 private:
  bool exact_, any_, all_zero_ = true, negative_ = true;
};

// Adds products without rounding; the type of the sum must be that of their elements.
void add_exactly(ExactSums<float>::products& sum, const Pairs& pairs);
void add_exactly(ExactSums<double>::products& sum, const Pairs& pairs);

// Rounds an exact sum of elements of this type, or of their products.
template <class Sum>
void store_exact(const Sum& sum, const Outputs& out) {
  visit_float(out.type->dtype, [&]<class T>(T) {
    using Sums = ExactSums<T>;
    if constexpr (std::is_same_v<Sum, typename Sums::products> || std::is_same_v<Sum, typename Sums::terms>)
      *out.as<T>() = sum.template round<T>();
  });
}

template <class Sum, class Walk>
void round_exactly(const Walk& walk, const double* bias, const Outputs& out) {
  Sum sum;
  unsigned runs = 0;
  walk([&](const Pairs& pairs) {
    poll_interrupts_seldom(runs);
    add_exactly(sum, pairs);
    return true;
  });
  if (bias != nullptr) sum.add_product(*bias, 1.0);
  store_exact(sum, out);
}

// The correctly rounded sum of the products that `walk` passes to its argument in runs, and of `bias` unless it is
// null. Products of numbers up to float32 are exact in double, so a twofold sum of them comes first.
template <class Walk>
void round_products(const Walk& walk, const double* bias, const Outputs& out) {
  poll_interrupts();
  if (out.type->dtype == DType::f64) return round_exactly<ExactSums<double>::products>(walk, bias, out);
  TwofoldTerms sum;
  walk([&](const Pairs& pairs) {
    sum.add_products(pairs);
    return true;
  });
  if (bias != nullptr) sum.add(*bias);
  if (!sum.round(out)) round_exactly<ExactSums<float>::products>(walk, bias, out);
}

// The value of the lowest set bit of a finite nonzero number; infinity for 0, infinity and NaN, which impose nothing.
inline double lowest_bit(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x) & ~Binary64::sign;
  if (bits == 0 || bits >= Binary64::infinity) return std::numeric_limits<double>::infinity();
  constexpr std::uint64_t fraction = (std::uint64_t{1} << 52) - 1;
  const bool only_hidden = (bits & fraction) == 0;
  const double value = std::bit_cast<double>(bits);
  return only_hidden ? value : value - std::bit_cast<double>(bits & (bits - 1));
}

// When is a sum of products exact? If every product is a multiple of some power of two g and the magnitudes add up to
// less than 2^53 g, no addition rounds. Pictures with integer values and simple filters are such data, and full of
// exact zeros and ties, which no error bound could decide. The power of two costs a pass over the data, so it is looked
// for only when many outputs were undecided.
// The smallest lowest bit of an array; infinity if it has no finite nonzero element.
double smallest_bit(const Elements& data, const Sizes& shape, const Sizes& strides, int axis = 0);

// The bound below which sums are exact: 0 until somebody asked for it to be found.
class ExactLimit {
 public:
  double now() const { return limit_.load(std::memory_order_acquire); }
  bool known() const { return known_.load(std::memory_order_acquire); }
  void find(const std::function<double()>& search) {
    std::call_once(once_, [&] {
      limit_.store(search(), std::memory_order_release);
      known_.store(true, std::memory_order_release);
    });
  }

 private:
  std::once_flag once_;
  std::atomic<double> limit_{0};
  std::atomic<bool> known_{false};
};

// `grid` is a power of two that divides every term; `depth` is how many additions a term passes through.
inline double exact_limit(double grid, double depth, bool twofold) {
  if (!(grid >= std::numeric_limits<double>::denorm_min())) return 0;
  return grid * (twofold ? 0x1p104 / (depth + 2) : 0x1p52);
}

}  // namespace halfulp::conv
