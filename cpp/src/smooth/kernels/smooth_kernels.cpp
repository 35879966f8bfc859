// Exponentials, sums and logarithms of a batch of windows. Plain loops over the batch, which compilers vectorise.
#include "smooth/smooth_kernels.hpp"

#include "smooth/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr Index kBatch = kSmoothBatch;

using Real = Pair;
using R = RealTraits<Pair>;

// exp(beta (u - top)) and a bound on its relative error: 3 units of the exponent for the difference, beta and their
// product, 8 of the exponential. Below the lowest exponent the number is only known to lie between 0 and twice itself.
struct Weight {
  Real weight;
  double error;
};
inline Weight weight_of(double u, double top, Real beta) {
  const Real exact = beta * difference(u, top, static_cast<Real*>(nullptr));
  const bool tiny = !(R::high(exact) >= R::lowest_exponent);
  const Real d = tiny ? R::from(R::lowest_exponent, 0.0) : exact;
  return {exponential(d), tiny ? 1.0 : (4.0 * std::fabs(R::high(d)) + 8.0) * R::unit};
}

struct Tops {
  double top[kBatch];
  double taken[kBatch];  // 1 once the largest cell has been met: its weight, 1, is not part of the rest
};

Tops tops_of(const SmoothBatch& b) {
  Tops tops;
  for (Index i = 0; i < kBatch; ++i) {
    tops.top[i] = b.padded[i] > 0.0 ? 0.0 : -std::numeric_limits<double>::infinity();
    tops.taken[i] = 0.0;
  }
  for (Index j = 0; j < b.cells; ++j)
    for (Index i = 0; i < kBatch; ++i)
      tops.top[i] = b.u[j * kBatch + i] > tops.top[i] ? b.u[j * kBatch + i] : tops.top[i];
  return tops;
}

void weights(const SmoothBeta& given, const SmoothBatch& b) {
  const Real beta = R::from(given.high, given.low);
  Tops tops = tops_of(b);
  Real rest[kBatch];
  double error[kBatch];
  const double terms = static_cast<double>(b.cells) + 2.0;
  for (Index i = 0; i < kBatch; ++i) {
    // The padding: so many equal terms, all but one of which are in the rest if a padded zero is the largest.
    const Weight w = weight_of(0.0, tops.top[i], beta);
    const bool largest = b.padded[i] > 0.0 && tops.top[i] == 0.0;
    tops.taken[i] = largest ? 1.0 : 0.0;
    rest[i] = w.weight * R::from(largest ? b.padded[i] - 1.0 : b.padded[i], 0.0);
    error[i] = R::high(rest[i]) * (w.error + R::unit);
  }
  for (Index j = 0; j < b.cells; ++j) {
    for (Index i = 0; i < kBatch; ++i) {
      const double u = b.u[j * kBatch + i];
      const bool missing = !(u > -std::numeric_limits<double>::infinity());
      const Weight w = weight_of(missing ? tops.top[i] : u, tops.top[i], beta);
      const Real weight = R::scaled(w.weight, missing ? 0.0 : 1.0);
      put(b.weight, b.weight_low, j * kBatch + i, weight);
      b.weight_error[j * kBatch + i] = w.error;
      const bool largest = (u == tops.top[i]) & (tops.taken[i] == 0.0);
      tops.taken[i] = largest ? 1.0 : tops.taken[i];
      rest[i] = rest[i] + R::scaled(weight, largest ? 0.0 : 1.0);
      error[i] += largest ? 0.0 : R::high(weight) * w.error;
    }
  }
  for (Index i = 0; i < kBatch; ++i) {
    error[i] = (error[i] + terms * R::unit * R::high(rest[i])) * 1.01;
    const Real total = R::from(1.0, 0.0) + rest[i];
    put(b.total, b.total_low, i, total);
    b.total_error[i] = error[i] + R::unit * R::high(total);
  }
  if (b.value == nullptr) return;
  for (Index i = 0; i < kBatch; ++i) {
    // top + log(1 + rest) / beta. The logarithm's slope is at most 1; it adds 16 units, the quotient and beta 4.
    const Real logarithm = log_one_plus(rest[i]);
    const Real added = logarithm / beta;
    const Real value = R::from(tops.top[i], 0.0) + added;
    const double log_error = error[i] + 20.0 * R::unit * R::high(logarithm);
    put(b.value, b.value_low, i, value);
    b.value_error[i] = (log_error / given.high + 2.0 * R::unit * (std::fabs(R::high(value)) + R::high(added))) * 1.01;
  }
}

void contract(const SmoothBatch& b, const double* t, double* high, double* low, double* error) {
  Real sum[kBatch];
  double bound[kBatch];
  const double terms = static_cast<double>(b.cells) + 2.0;
  for (Index i = 0; i < kBatch; ++i) {
    sum[i] = R::from(0.0, 0.0);
    bound[i] = 0.0;
  }
  for (Index j = 0; j < b.cells; ++j) {
    for (Index i = 0; i < kBatch; ++i) {
      const Index k = j * kBatch + i;
      const Real product = at<Real>(b.weight, b.weight_low, k) * R::from(t[k], 0.0);
      sum[i] = sum[i] + product;
      bound[i] += std::fabs(R::high(product)) * (b.weight_error[k] + terms * R::unit);
    }
  }
  for (Index i = 0; i < kBatch; ++i) {
    const Real total = at<Real>(b.total, b.total_low, i);
    const Real result = sum[i] / total;
    const double size = std::fabs(R::high(result));
    put(high, low, i, result);
    error[i] = ((bound[i] + size * b.total_error[i]) / R::high(total) + 4.0 * R::unit * size) * 1.01;
  }
}

void distribute(const SmoothBatch& b, const double* g, double* high, double* low, double* error) {
  Real share[kBatch];
  double relative[kBatch];
  for (Index i = 0; i < kBatch; ++i) {
    const Real total = at<Real>(b.total, b.total_low, i);
    share[i] = R::from(g[i], 0.0) / total;
    relative[i] = b.total_error[i] / R::high(total) + 6.0 * R::unit;
  }
  for (Index j = 0; j < b.cells; ++j) {
    for (Index i = 0; i < kBatch; ++i) {
      const Index k = j * kBatch + i;
      const Real result = at<Real>(b.weight, b.weight_low, k) * share[i];
      put(high, low, k, result);
      error[k] = std::fabs(R::high(result)) * (b.weight_error[k] + relative[i]) * 1.01;
    }
  }
}

}  // namespace

const SmoothKernels& smooth_kernels() {
  static constexpr SmoothKernels table{weights, contract, distribute};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
