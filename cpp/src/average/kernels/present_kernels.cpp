// Means of the numbers among pairs of floats. Terms are doubles; a sum is exact if no addition has an error, and only
// its quotient is rounded. -0 is the term that changes no sum, signs of zero included.
#include "average/present_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

struct Total {
  double sum = -0.0, error = 0, count = 0;

  inline void add(float cell) {
    const bool number = cell == cell;
    const double term = number ? static_cast<double>(cell) : -0.0;
    count += number ? 1.0 : 0.0;
    const double next = sum + term;
    const double from_term = next - sum;
    const double from_sum = next - from_term;
    const double low = (sum - from_sum) + (term - from_term);
    error += low * low;
    sum = next;
  }
};

template <int Rows, bool Sum>
bool pairs_of(const float* const* rows, float* __restrict out, std::uint32_t* __restrict unsure, int64_t n) {
  const float *a = rows[0], *b = rows[Rows > 1 ? 1 : 0], *c = rows[Rows > 2 ? 2 : 0], *d = rows[Rows > 2 ? 3 : 0];
  std::uint32_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    Total t;
    t.add(a[2 * i]);
    t.add(a[2 * i + 1]);
    if constexpr (Rows > 1) {
      t.add(b[2 * i]);
      t.add(b[2 * i + 1]);
    }
    if constexpr (Rows > 2) {
      t.add(c[2 * i]);
      t.add(c[2 * i + 1]);
      t.add(d[2 * i]);
      t.add(d[2 * i + 1]);
    }
    const double q = Sum ? t.sum : t.sum / t.count;  // the zero of no terms over no terms is NaN
    const double empty = q + (-0.0 / t.count);       // NaN for a sum of nothing
    const float value = static_cast<float>(Sum ? empty : q);
    const float low = static_cast<float>(q * (1 - 0x1p-51)), high = static_cast<float>(q * (1 + 0x1p-51));
    // Powers of two divide exactly, up to the rounding to float.
    const bool exact = Sum || t.count == 1.0 || t.count == 2.0 || t.count == 4.0 || t.count == 8.0 || t.count == 0.0;
    const std::uint32_t doubt = (t.error == 0.0 ? 0u : 1u) | (exact || low == high ? 0u : 1u);
    out[i] = value;
    unsure[i] = doubt;
    any |= doubt;
  }
  return any != 0;
}

template <int Rows>
bool pairs_in(const float* const* rows, bool sum, float* out, std::uint32_t* unsure, int64_t n) {
  return sum ? pairs_of<Rows, true>(rows, out, unsure, n) : pairs_of<Rows, false>(rows, out, unsure, n);
}

bool pairs(const float* const* rows, int64_t count, bool sum, float* out, std::uint32_t* unsure, int64_t n) {
  if (count == 1) return pairs_in<1>(rows, sum, out, unsure, n);
  if (count == 2) return pairs_in<2>(rows, sum, out, unsure, n);
  return pairs_in<4>(rows, sum, out, unsure, n);
}

}  // namespace

const PresentKernels& present_kernels() {
  static constexpr PresentKernels table{pairs};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
