// Lanes that move on by one place, from one vector to the next.
#pragma once

#include "simd/deinterleave.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// As in_order, turned by one place: the last element comes first.
template <class V>
inline V turned_in_order(const V& v) {
#if defined(HALFULP_X86) && defined(HALFULP_AVX2)
  constexpr int n = sizeof(V) / sizeof(lane_type<V>);
  if constexpr (sizeof(V) == 32 && n == 4) {
    return __builtin_shufflevector(v, v, 3, 0, 2, 1);
  } else if constexpr (sizeof(V) == 64 && n == 8) {
    return __builtin_shufflevector(v, v, 7, 0, 2, 4, 6, 1, 3, 5);
  } else
#endif
  {
    const V ordered = in_order(v);
    return shuffled<sizeof(V) / sizeof(lane_type<V>) - 1, 1>(ordered, ordered, lane_sequence<V>{});
  }
}

// The first element of `first`, the others of v.
template <class V, int... I>
inline V with_first_of(const V& v, const V& first, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, first, (I == 0 ? static_cast<int>(sizeof...(I)) : I)...);
}
template <class V>
inline V with_first_of(const V& v, const V& first) {
  return with_first_of(v, first, lane_sequence<V>{});
}

// What lies between the elements of `first` and those of `last`, which begin two further on.
template <class V, int... I>
inline V between(const V& first, const V& last, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(first, last, (I % 2 == 0 ? I + 1 : static_cast<int>(sizeof...(I)) + I - 1)...);
}
template <class V>
inline V between(const V& first, const V& last) {
  return between(first, last, lane_sequence<V>{});
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
