// Order statistics of many windows at once: keys whose order as unsigned numbers is that of the cells, in columns.
#pragma once

#include <cstdint>

#include "halfulp/dtype.hpp"
#include "base/kernel_table.hpp"

namespace halfulp {

inline constexpr std::int64_t kOrderBlock = 128;  // windows in a column

struct OrderKernels {
  // keys[i] = the key of the cell at source + i * stride bytes, by element type. NaN has the largest key; with
  // `merge_zeros` -0 has that of +0.
  void (*keys[kDTypeCount])(const char* source, std::int64_t stride, void* keys, std::int64_t n, bool merge_zeros);
  // Sorts `count` columns of kOrderBlock keys of 1, 2, 4 or 8 bytes across.
  void (*sort[4])(void* columns, std::int64_t count);
  // The most frequent key of sorted columns, the smallest if there are several.
  void (*mode[4])(const void* columns, std::int64_t count, void* out);
  // out = the mean of two keys to nearest even as an element; equal keys give their own element.
  void (*middle[kDTypeCount])(const void* low, const void* high, void* out, std::int64_t n);
};

HALFULP_KERNEL_TABLE(OrderKernels, order_kernels)

}  // namespace halfulp
