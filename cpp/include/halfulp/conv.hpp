// Convolution: the three products of one set of (output, tap, input cell) triples, and the sum for the bias.
//
// Along each axis output o, tap t and input cell i belong together when i = o * stride + t * dilation - before and i
// lies in the input. A transposed convolution is the input product with its arguments' roles exchanged, so these
// functions are the value, the JVP and the VJP of both operators.
#pragma once

#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"

namespace halfulp::conv {

// `correct` rounds the exact value once; `fast` accumulates in float (double for float64) in a fixed order.
enum class Precision { correct, fast };

struct Geometry {
  Index batch = 1;
  Index groups = 1;
  Index in_channels = 0;   // per group
  Index out_channels = 0;  // per group
  std::vector<Axis> axes;  // of the convolution: input cells -> outputs
};

// An array of planes (batch, channels, spatial…), its strides counted in elements.
template <class T>
struct Planes {
  T* data = nullptr;
  Index batch = 0;
  Index channel = 0;
  std::vector<Index> spatial;
};

// A weight (groups * out_channels, in_channels, kernel…).
template <class T>
struct Filters {
  T* data = nullptr;
  Index out = 0;
  Index in = 0;
  std::vector<Index> spatial;
};

// One sum of products: planes (of the input, or of the output for the transposed product) times filters.
template <class T>
struct Operand {
  Planes<const T> planes;
  Filters<const T> filters;
};

// Joins neighbouring axes along which the kernel is 1 and nothing is padded or skipped, where all planes allow it: a
// 1x1 convolution of images is one of rows. Gives the new strides.
void merge_plain_axes(Geometry& geometry, const std::vector<std::vector<Index>*>& plane_strides,
                      const std::vector<std::vector<Index>*>& filter_strides);

// out[n, m, o] = sum over the operands of sum_{c, t} filters[m, c, t] * planes[n, c, i(o, t)], plus bias[m]: a forward
// convolution (one operand) or its tangent (two: weight and input tangent, weight tangent and input), rounded once.
template <class T>
void output_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                    const Planes<T>& out, Precision precision);

// out[n, c, i] = sum over the operands of sum_{m, (o, t) with i(o, t) = i} filters[m, c, t] * planes[n, m, o], plus
// bias[c]: the input cotangent of a convolution, or a forward transposed convolution.
template <class T>
void input_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                   const Planes<T>& out, Precision precision);

// out[m, c, t] = sum_{n, o} outputs[n, m, o] * inputs[n, c, i(o, t)]: the weight cotangent.
template <class T>
void weight_product(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
                    const Filters<T>& out, Precision precision);

// out[c] = the sum over batch and space of planes[n, c, …], c over all groups' channels: the bias cotangent. Always
// correctly rounded: it costs little beside the products.
template <class T>
void bias_sum(Index batch, Index channels, const std::vector<Index>& sizes, const Planes<const T>& planes, T* out,
              Index out_stride);

}  // namespace halfulp::conv
