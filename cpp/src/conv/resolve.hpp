// The outputs that a fast sum could not decide: their terms are walked one by one. Most are decided by a twofold sum
// with its own bound; the rest by exact arithmetic. The proofs stand in docs/explanation/error-bounds-convolution.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "conv/plan.hpp"
#include "halfulp/dtype.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/interrupt.hpp"

namespace halfulp::conv {

inline double as_double(Float16 x) { return static_cast<double>(to_float(x)); }
inline double as_double(BFloat16 x) { return static_cast<double>(to_float(x)); }
inline double as_double(float x) { return static_cast<double>(x); }
inline double as_double(double x) { return x; }

// Rounds high + low, a twofold sum of exact products whose magnitudes add up to `size`. The sum lies within
// D^2 2^-105 size of high + low, where D additions are the most that a term passes through. Where that leaves no doubt,
// `high` moved to an odd neighbour in the direction of `low` rounds as the exact sum does.
template <class T>
bool round_twofold(double high, double low, double size, double additions, T& result) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double error = 2 * additions * additions * 0x1p-106 * size;
  const TwoDoubles sum = two_sum(high, low);
  if (!(error < 0x1p-56 * std::abs(sum.high))) return false;  // so too for NaN, infinity and zero
  double odd = sum.high;
  if (std::abs(sum.low) > error) {
    const bool even = (std::bit_cast<std::uint64_t>(odd) & 1) == 0;
    if (even) odd = std::nextafter(odd, sum.low > 0 ? infinity : -infinity);
  } else if (!same_rounding<T>(std::nextafter(odd, -infinity), std::nextafter(odd, infinity))) {
    return false;
  }
  result = round_to<T>(odd);
  return true;
}

// A sum of doubles and what it lost, high + low, with the magnitudes of the terms beside it. Terms are kept until there
// is a block of them and then added in lanes of their own: one addition need not wait for the one before.
class TwofoldTerms {
 public:
  void add(double x) {
    waiting_[waiting_count_++] = x;
    if (waiting_count_ == kBlock) add_block();
  }
  // The products of n pairs, which must be exact.
  template <class T>
  void add_products(const T* a, Index a_stride, const T* b, Index b_stride, Index n) {
    while (n > 0) {
      const int count = static_cast<int>(std::min<Index>(n, kBlock - waiting_count_));
      double* const out = waiting_ + waiting_count_;
      for (int i = 0; i < count; ++i) out[i] = as_double(a[i * a_stride]) * as_double(b[i * b_stride]);
      waiting_count_ += count;
      if (waiting_count_ == kBlock) add_block();
      a += count * a_stride;
      b += count * b_stride;
      n -= count;
    }
  }

  template <class T>
  bool round(T& result) {
    std::fill(waiting_ + waiting_count_, waiting_ + kBlock, 0.0);
    add_block();
    fold();
    double high = 0, low = 0, size = 0;
    for (int lane = 0; lane < kWidth; ++lane) {
      const TwoDoubles sum = two_sum(high, total_high_[lane]);
      high = sum.high;
      low += sum.low + total_low_[lane];
      size += size_[lane];
    }
    return round_twofold(high, low, size, kFold * (kBlock / kWidth) + folds_ + 2 * kWidth + 2, result);
  }

 private:
  static constexpr int kWidth = 8, kBlock = 64;
  static constexpr int kFold = 64;  // blocks that are added up before they join the rest

  void add_block() {
    for (int i = 0; i < kBlock; i += kWidth) {
      for (int lane = 0; lane < kWidth; ++lane) {
        const double x = waiting_[i + lane];
        const TwoDoubles sum = two_sum(high_[lane], x);
        high_[lane] = sum.high;
        low_[lane] += sum.low;
        size_[lane] += std::abs(x);
      }
    }
    waiting_count_ = 0;
    if (++blocks_ == kFold) fold();
  }

  void fold() {
    for (int lane = 0; lane < kWidth; ++lane) {
      const TwoDoubles sum = two_sum(total_high_[lane], high_[lane]);
      total_high_[lane] = sum.high;
      total_low_[lane] += sum.low + low_[lane];
      high_[lane] = low_[lane] = 0;
    }
    blocks_ = 0;
    folds_ += 1;
  }

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

// The correctly rounded sum of the products that `walk` passes to its argument in runs (a, stride, b, stride, n), and
// of `bias` unless it is null. Products of numbers up to float32 are exact in double, so a twofold sum of them comes
// first.
template <class T, class Walk>
T round_products(const Walk& walk, const double* bias) {
  poll_interrupts();
  if constexpr (!std::is_same_v<T, double>) {
    TwofoldTerms sum;
    T result;
    walk([&](const T* a, Index a_stride, const T* b, Index b_stride, Index n) {
      sum.add_products(a, a_stride, b, b_stride, n);
      return true;
    });
    if (bias != nullptr) sum.add(*bias);
    if (sum.round(result)) return result;
  }
  typename ExactSums<T>::products sum;
  unsigned runs = 0;
  walk([&](const T* a, Index a_stride, const T* b, Index b_stride, Index n) {
    poll_interrupts_seldom(runs);
    for (Index i = 0; i < n; ++i) sum.add_product(as_double(a[i * a_stride]), as_double(b[i * b_stride]));
    return true;
  });
  if (bias != nullptr) sum.add_product(*bias, 1.0);
  return sum.template round<T>();
}

// Calls f(a, b) for the pairs of a run until it returns false.
template <class T, class F>
auto one_by_one(const F& f) {
  return [&f](const T* a, Index a_stride, const T* b, Index b_stride, Index n) {
    for (Index i = 0; i < n; ++i)
      if (!f(as_double(a[i * a_stride]), as_double(b[i * b_stride]))) return false;
    return true;
  };
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

}  // namespace halfulp::conv
