// A sum of two doubles, rounded once.
#pragma once

#include <type_traits>

#include "exact/round.hpp"

namespace halfulp {

// high + low rounded once: by way of a double that is odd where it is not exact, which no later rounding mistakes for a
// tie.
template <class T>
inline T rounded_pair(double high, double low) {
  const TwoDoubles sum = two_sum(high, low);
  if constexpr (std::is_same_v<T, double>) {
    return sum.high;
  } else {
    auto bits = std::bit_cast<std::uint64_t>(sum.high);
    if (sum.low != 0 && (bits & 1) == 0) bits += (sum.low > 0) == (sum.high > 0) ? std::uint64_t{1} : ~std::uint64_t{0};
    return round_to<T>(std::bit_cast<double>(bits));
  }
}

}  // namespace halfulp
