// Exponentials, sums and logarithms of a batch of windows, a vector of them at a time.
#include "smooth/smooth_kernels.hpp"

#include <limits>

#include "simd/doubles.hpp"
#include "smooth/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using Real = PairOf<Doubles>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = RealTraits<Pair>::unit, kLowest = RealTraits<Pair>::lowest_exponent;

Real pair_of(double high, double low = 0.0) { return {splat(high), splat(low)}; }
Real load_pair(const double* high, const double* low, Index i) { return {load(high + i), load(low + i)}; }
void store_pair(double* high, double* low, Index i, const Real& x) {
  store(high + i, x.high);
  store(low + i, x.low);
}
Real scaled(const Real& x, const Doubles& by) { return {x.high * by, x.low * by}; }

// exp(beta (u - top)) and a bound on its relative error: 3 units of the exponent for the difference, beta and their
// product, 8 of the exponential. Below the lowest exponent the number is only known to lie between 0 and twice itself.
struct Weight {
  Real weight;
  Doubles error;
};
Weight weight_of(const Doubles& u, const Doubles& top, const Real& beta) {
  const Real exact = beta * sum_of(u, Doubles(-top));
  const auto known = exact.high >= kLowest;
  const Real d{select(known, exact.high, splat(kLowest)), select(known, exact.low, Doubles{})};
  return {exponential(d), select(known, (4.0 * magnitude(d.high) + 8.0) * kUnit, splat(1.0))};
}

// Lanes [lane, lane + kWide) of a batch: their weights and totals.
void weights_of(const SmoothBeta& given, const SmoothBatch& b, Index lane) {
  const Real beta = pair_of(given.high, given.low);
  const Doubles padded = load(b.padded + lane), one = splat(1.0), zero{}, nothing = splat(-kInfinity);
  const auto has_padding = padded > 0.0;
  Doubles top = select(has_padding, zero, nothing);
  for (Index j = 0; j < b.cells; ++j) {
    const Doubles u = load(b.u + j * kSmoothBatch + lane);
    top = select(u > top, u, top);
  }
  // The padding: so many equal terms, all but one of which are in the rest if a padded zero is the largest: the weight
  // of one largest cell, 1, is not part of the rest.
  const Weight padding = weight_of(zero, top, beta);
  auto taken = has_padding & (top == 0.0);
  Real rest = padding.weight * Real{select(taken, padded - 1.0, padded), zero};
  Doubles error = rest.high * (padding.error + kUnit);
  for (Index j = 0; j < b.cells; ++j) {
    const Index k = j * kSmoothBatch + lane;
    const Doubles u = load(b.u + k);
    const auto there = u > nothing;
    const Weight w = weight_of(select(there, u, top), top, beta);
    const Real weight = scaled(w.weight, select(there, one, zero));
    store_pair(b.weight, b.weight_low, k, weight);
    store(b.weight_error + k, w.error);
    const auto largest = (u == top) & ~taken;
    taken |= largest;
    rest = rest + scaled(weight, select(largest, zero, one));
    error += select(largest, zero, weight.high * w.error);
  }
  const double terms = static_cast<double>(b.cells) + 2.0;
  error = (error + terms * kUnit * rest.high) * 1.01;
  const Real total = pair_of(1.0) + rest;
  store_pair(b.total, b.total_low, lane, total);
  store(b.total_error + lane, error + kUnit * total.high);
  if (b.value == nullptr) return;
  // top + log(1 + rest) / beta. The logarithm's slope is at most 1; it adds 16 units, the quotient and beta 4.
  Real logarithm;
  for (int i = 0; i < kWide; ++i) {
    const Pair l = log_one_plus(Pair{rest.high[i], rest.low[i]});
    logarithm.high[i] = l.high;
    logarithm.low[i] = l.low;
  }
  const Real added = logarithm / beta, value = Real{top, zero} + added;
  const Doubles log_error = error + 20.0 * kUnit * logarithm.high;
  store_pair(b.value, b.value_low, lane, value);
  store(b.value_error + lane,
        (log_error / given.high + 2.0 * kUnit * (magnitude(value.high) + added.high)) * 1.01);
}

void weights(const SmoothBeta& beta, const SmoothBatch& b) {
  for (Index lane = 0; lane < kSmoothBatch; lane += kWide) weights_of(beta, b, lane);
}

void contract(const SmoothBatch& b, const double* t, double* high, double* low, double* error) {
  const double terms = static_cast<double>(b.cells) + 2.0;
  for (Index lane = 0; lane < kSmoothBatch; lane += kWide) {
    Real sum{};
    Doubles bound{};
    for (Index j = 0; j < b.cells; ++j) {
      const Index k = j * kSmoothBatch + lane;
      const Real product = load_pair(b.weight, b.weight_low, k) * Real{load(t + k), Doubles{}};
      sum = sum + product;
      bound += magnitude(product.high) * (load(b.weight_error + k) + terms * kUnit);
    }
    const Real total = load_pair(b.total, b.total_low, lane), result = sum / total;
    const Doubles size = magnitude(result.high);
    store_pair(high, low, lane, result);
    store(error + lane, ((bound + size * load(b.total_error + lane)) / total.high + 4.0 * kUnit * size) * 1.01);
  }
}

void distribute(const SmoothBatch& b, const double* g, double* high, double* low, double* error) {
  for (Index lane = 0; lane < kSmoothBatch; lane += kWide) {
    const Real total = load_pair(b.total, b.total_low, lane), share = Real{load(g + lane), Doubles{}} / total;
    const Doubles relative = load(b.total_error + lane) / total.high + 6.0 * kUnit;
    for (Index j = 0; j < b.cells; ++j) {
      const Index k = j * kSmoothBatch + lane;
      const Real result = load_pair(b.weight, b.weight_low, k) * share;
      store_pair(high, low, k, result);
      store(error + k, magnitude(result.high) * (load(b.weight_error + k) + relative) * 1.01);
    }
  }
}

}  // namespace

const SmoothKernels& smooth_kernels() {
  static constexpr SmoothKernels table{weights, contract, distribute};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
