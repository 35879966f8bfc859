#include "average/whole_planes.hpp"

#include "average/careful_kernels.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/interrupt.hpp"

namespace halfulp {

template <class T>
WholePlanes<T>::WholePlanes(const SumPlan& plan, const SumLayout& layout)
    : layout_(layout), range_(plan, layout), kernels_(fast_kernels_of<T>()), applies_(suits(plan)) {
  if (!applies_) return;
  for (const SumAxis* axis : layout.axes) {
    cells_ *= axis->sources;
    divisor_ *= axis->divisor[0];
  }
  if (plan.divisor != 0) divisor_ = plan.divisor;
}

template <class T>
bool WholePlanes<T>::suits(const SumPlan& plan) const {
  if (layout_.lanes != 1 || plan.negated || !range_.divides()) return false;
  Index stride = 1;
  for (std::size_t a = layout_.axes.size(); a-- > 0;) {
    const SumAxis& axis = *layout_.axes[a];
    const bool whole = axis.outputs() == 1 && axis.count[0] == axis.sources && axis.step == 1 && axis.padded[0] == 0;
    if (!whole || axis.sources == 0 || !axis.weights.empty()) return false;
    if (axis.sources > 1 && layout_.in_strides[a] != stride) return false;
    stride *= axis.sources;
  }
  return true;
}

template <class T>
template <bool Sizes>
void WholePlanes<T>::run_of(const T* x, T& result) const {
  double sum = 0.0, low = 0.0;
  const MagnitudeRange found = (Sizes ? kernels_.sum_sizes : kernels_.sum_all)[0](x, cells_, {&sum, &low, nullptr});
  const bool exact = range_.template exact<T>(found);
  if (exact ? !quotient(sum, low, result) : !bounded_quotient(sum, found, result)) result = exact_mean<Sizes>(x);
}

template <class T>
void WholePlanes<T>::run(const T* x, T& result) const {
  run_of<false>(x, result);
}

template <class T>
void WholePlanes<T>::run_sizes(const T* x, T& result) const {
  run_of<true>(x, result);
}

template <class T>
bool WholePlanes<T>::run_signed(const T* x, const T* plane, T& result) const {
  if (kernels_.sum_with_signs == nullptr) return false;
  double sum = 0.0, low = 0.0;
  const MagnitudeRange found = kernels_.sum_with_signs(x, plane, cells_, {&sum, &low, nullptr});
  return range_.template exact<T>(found) ? quotient(sum, low, result) : bounded_quotient(sum, found, result);
}

// From an exact sum; see finish_exact and finish_f64_exact for why this is right.
template <class T>
bool WholePlanes<T>::quotient(double sum, double low, T& result) const {
  if constexpr (std::is_same_v<T, double>) {
    std::int32_t undecided = 0;
    const auto finish = select_careful_kernels().finish_f64[0];
    return finish({&sum, &low, nullptr}, 1, sum_divisor(divisor_), &result, &undecided) == 0;
  } else {
    result = round_to<T>(sum / static_cast<double>(divisor_));
    return true;
  }
}

// From a float64 sum with rounding errors: one for each of the additions that a partial sum goes through, at most u of
// all magnitudes together. True if the quotient rounds the same way at both ends of its interval.
template <class T>
bool WholePlanes<T>::bounded_quotient(double sum, const MagnitudeRange& range, T& result) const {
  if (std::is_same_v<T, double> || range.largest >= format_of<T>::infinity) return false;
  const auto n = static_cast<double>(divisor_), cells = static_cast<double>(cells_);
  const double largest = std::ldexp(1.0, SumRange<T>::template exponent_of<T>(range.largest) + 1);
  const double additions = cells / 16 + 32;  // sixteen partial sums at least
  const double q = sum / n;
  const double error = additions * cells * largest * 0x1p-52 / n + std::fabs(q) * 0x1p-51;
  result = round_to<T>(q);
  return same_rounding<T>(q - error, q + error);
}

// Exponents that range too far for plain sums: in two parts, or cell by cell.
template <class T>
template <bool Sizes>
T WholePlanes<T>::exact_mean(const T* x) const {
  poll_interrupts();
  double sum = 0.0, low = 0.0;
  typename ExactSums<T>::terms exact;
  const auto sum_cells = (Sizes ? kernels_.sum_sizes : kernels_.sum_all)[1];
  if (range_.template exact_pair<T>(sum_cells(x, cells_, {&sum, &low, nullptr}))) {
    exact.add(sum);
    if (low != 0.0) exact.add(low);
  } else {
    unsigned calls = 0;
    for (Index i = 0; i < cells_; ++i) {
      poll_interrupts_seldom(calls);
      double cell = 0;
      if constexpr (std::is_same_v<T, double>) cell = x[i];
      else cell = static_cast<double>(to_float(x[i]));
      exact.add(Sizes ? std::fabs(cell) : cell);
    }
  }
  return exact.template round_quotient<T>(divisor_);
}

template class WholePlanes<Float16>;
template class WholePlanes<BFloat16>;
template class WholePlanes<float>;
template class WholePlanes<double>;

}  // namespace halfulp
