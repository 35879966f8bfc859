// Loops over rows of sums without branches, so that they vectorise.
#include "patches/patch_kernels.hpp"

#include <cmath>
#include <limits>

#include "exact/round.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T>
void add_terms(const typename PatchKernels<T>::Term* terms, PatchSums to, std::int64_t n) {
  double *__restrict high = to.high, *__restrict low = to.low, *__restrict rest = to.rest;
  for (std::int64_t i = 0; i < n; ++i) {
    const TwoDoubles sum = two_sum(high[i], static_cast<double>(terms[i]));
    high[i] = sum.high;
    if constexpr (std::is_same_v<T, double>) {
      const TwoDoubles errors = two_sum(low[i], sum.low);
      low[i] = errors.high;
      rest[i] += std::abs(errors.low);  // not zero if any of them is not
    } else {
      rest[i] += std::abs(sum.low);
    }
  }
}

template <class T>
bool finish(PatchSums sums, T* __restrict out, std::int64_t n) {
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = sums.high[i];
    if constexpr (std::is_same_v<T, double>) sum += sums.low[i];
    out[i] = round_to<T>(sum);
    const bool good = (sums.rest[i] == 0) & (sum != 0) & (std::abs(sum) <= std::numeric_limits<double>::max());
    unsure |= good ? 0 : 1;
  }
  return unsure == 0;
}

template <class T>
constexpr PatchKernels<T> table{add_terms<T>, finish<T>};

}  // namespace

const PatchKernels<Float16>& patch_kernels_f16() { return table<Float16>; }
const PatchKernels<BFloat16>& patch_kernels_bf16() { return table<BFloat16>; }
const PatchKernels<float>& patch_kernels_f32() { return table<float>; }
const PatchKernels<double>& patch_kernels_f64() { return table<double>; }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
