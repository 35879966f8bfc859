// Whether an interval of real numbers rounds to one float. Included by kernels and by the passes that use them.
#pragma once

#include <cmath>
#include <type_traits>

#include "exact/round.hpp"

namespace halfulp {

#ifdef HALFULP_ISA_NAMESPACE
namespace {
#endif

// The T that all numbers within `error` of high + low round to, if there is one; low parts are for float64 only, where
// results below `least` in magnitude are left undecided, because low parts lose bits near the end of the range.
template <class T>
inline bool decide(double high, double low, double error, double least, T& result) {
  if constexpr (std::is_same_v<T, double>) {
    // The addition of the bound rounds as well.
    const double bound = error + (std::fabs(low) + error) * 0x1p-52;
    result = high + low;
    return (std::fabs(result) > least) & (std::fabs(result) < 0x1p1000) & same_rounding(high, low, bound);
  } else {
    result = round_to<T>(high + error);
    return same_rounding<T>(high - error, high + error);
  }
}

// The same for results of shared exponentials. A bound of zero is that of a sum without terms, which is +0: everything
// else is far from the range where bounds vanish.
template <class T>
inline bool decide_shared(double high, double low, double error, T& result) {
  return decide<T>(high, low, error, 0x1p-400, result) | ((high == 0.0) & (error == 0.0));
}

#ifdef HALFULP_ISA_NAMESPACE
}
#endif
}  // namespace halfulp
