// Elements whose type is known at run time, so that engines compile once for all types. Kernels do what depends on the
// type; the few loops that are left choose theirs by `visit_float`.
#pragma once

#include <cstddef>
#include <vector>

#include "conv/conv_kernels.hpp"
#include "exact/round.hpp"
#include "halfulp/conv.hpp"

namespace halfulp::conv {

inline double as_double(Float16 x) { return static_cast<double>(to_float(x)); }
inline double as_double(BFloat16 x) { return static_cast<double>(to_float(x)); }
inline double as_double(float x) { return static_cast<double>(x); }
inline double as_double(double x) { return x; }

// The address of an element. It counts elements, as a pointer does.
template <class Byte>
struct Address {
  Byte* at = nullptr;
  const ElementType* type = nullptr;

  Address operator+(Index n) const { return {at + n * type->size, type}; }
  Address& operator+=(Index n) { return *this = *this + n; }
  bool operator==(std::nullptr_t) const { return at == nullptr; }

  // The element as a pointer of its type.
  template <class T>
  auto as() const {
    if constexpr (std::is_const_v<Byte>) return reinterpret_cast<const T*>(at);
    else return reinterpret_cast<T*>(at);
  }
  // n elements, `stride` elements apart; as floats only those that are no larger.
  void load(Index stride, Index n, float* out) const { type->load_single(at, stride, n, out); }
  void load(Index stride, Index n, double* out) const { type->load(at, stride, n, out); }
  double operator[](Index n) const {
    double value;
    (*this + n).load(1, 1, &value);
    return value;
  }
};

using Elements = Address<const std::byte>;
using Outputs = Address<std::byte>;

inline Elements constant(const Outputs& address) { return {address.at, address.type}; }

// Rounds a number to the element's type.
inline void store(const Outputs& out, double value) {
  visit_float(out.type->dtype, [&]<class T>(T) { *out.as<T>() = round_to<T>(value); });
}

// Planes and filters as halfulp/conv.hpp has them.
template <class Data>
struct PlanesOf {
  Data data;
  Index batch = 0, channel = 0;
  std::vector<Index> spatial;
};
using SourcePlanes = PlanesOf<Elements>;
using OutputPlanes = PlanesOf<Outputs>;

struct OutputFilters {
  Outputs data;
  Index out = 0, in = 0;
  std::vector<Index> spatial;
};

template <class T>
const ElementType& element_type(const ConvKernels& kernels) {
  return kernels.elements[static_cast<int>(dtype_of<T>)];
}
template <class T>
Elements elements(const T* data, const ConvKernels& kernels) {
  return {reinterpret_cast<const std::byte*>(data), &element_type<T>(kernels)};
}
template <class T>
Outputs outputs(T* data, const ConvKernels& kernels) {
  return {reinterpret_cast<std::byte*>(data), &element_type<T>(kernels)};
}
template <class T>
SourcePlanes source_planes(const Planes<const T>& planes, const ConvKernels& kernels) {
  return {elements(planes.data, kernels), planes.batch, planes.channel, planes.spatial};
}
template <class T>
OutputPlanes output_planes(const Planes<T>& planes, const ConvKernels& kernels) {
  return {outputs(planes.data, kernels), planes.batch, planes.channel, planes.spatial};
}

}  // namespace halfulp::conv
