// A maximum that is NaN is the type's one quiet NaN: no sign, no payload. So the result does not depend on which of
// several NaNs an engine meets first, nor on what an instruction makes of a signalling one.
#pragma once

#include <bit>
#include <type_traits>

#include "halfulp/dtype.hpp"
#include "exact/round.hpp"
#include "max/plane.hpp"

namespace halfulp {

template <class T>
void make_nans_quiet(T* values, Index n) noexcept {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> || std::is_floating_point_v<T>) {
    using F = format_of<T>;
    using Bits = typename F::bits_type;
    const auto magnitude = [](T x) { return static_cast<Bits>(std::bit_cast<Bits>(x) & static_cast<Bits>(~F::sign)); };
    Bits largest = 0;
    for (Index i = 0; i < n; ++i) largest = magnitude(values[i]) > largest ? magnitude(values[i]) : largest;
    if (largest <= F::infinity) return;
    for (Index i = 0; i < n; ++i)
      if (magnitude(values[i]) > F::infinity) values[i] = std::bit_cast<T>(F::quiet_nan);
  }
}

// The outputs [begin, end) of the first axis.
void make_plane_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end);

}  // namespace halfulp
