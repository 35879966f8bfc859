// Items that tests put into lanes, and what the lanes hold.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

void check_arithmetic();

namespace {

using std::int64_t;

template <class T>
T item(int i) {
  return static_cast<T>(i * 37 % 251 - (std::is_signed_v<T> || std::is_floating_point_v<T> ? 120 : 0));
}
template <class T>
std::vector<T> items(int n) {
  std::vector<T> all(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = item<T>(i);
  return all;
}
template <class T, class V>
bool holds(const V& v, const std::vector<T>& expected) {
  return sizeof v == expected.size() * sizeof(T) && std::memcmp(&v, expected.data(), sizeof v) == 0;
}
template <class T, int Bytes, class F>
std::vector<T> lanes(F&& f) {
  std::vector<T> all;
  for (int i = 0; i < kLanes<T, Bytes>; ++i) all.push_back(static_cast<T>(f(i)));
  return all;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
