// The bias cotangent: the sum of every channel.
#include <cmath>

#include "conv/resolve.hpp"
#include "conv/stage.hpp"
#include "conv/tasks.hpp"
#include "halfulp/conv.hpp"

namespace halfulp::conv {

namespace {

// Calls f(run, n) with the elements of one channel as doubles, in runs along the last axis.
template <class F>
void for_each_run(Buffer<double>& line, const Elements& data, const std::vector<Index>& sizes,
                  const std::vector<Index>& strides, const F& f) {
  const Index run = sizes.back();
  Index runs = 1;
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) runs *= sizes[axis];
  constexpr Index most = 4096;
  double* const out = line.at_least(std::min(run, most));
  for (Index i = 0; i < runs; ++i) {
    Index rest = i, offset = 0;
    for (std::size_t axis = sizes.size() - 1; axis-- > 0;) {
      offset += rest % sizes[axis] * strides[axis];
      rest /= sizes[axis];
    }
    for (Index first = 0; first < run; first += most) {
      const Index n = std::min(most, run - first);
      (data + offset + first * strides.back()).load(strides.back(), n, out);
      f(out, n);
    }
  }
}

// Sums in lanes of their own, which the compiler keeps in vector registers.
class LaneSums {
 public:
  template <class F>
  void add(const double* x, Index n, const F& f) {
    Index i = 0;
    for (; i + 8 <= n; i += 8)
      for (Index j = 0; j < 8; ++j) lanes_[j] += f(x[i + j]);
    for (; i < n; ++i) lanes_[0] += f(x[i]);
  }
  double total() const {
    return ((lanes_[0] + lanes_[1]) + (lanes_[2] + lanes_[3])) + ((lanes_[4] + lanes_[5]) + (lanes_[6] + lanes_[7]));
  }

 private:
  double lanes_[8] = {};
};

// Both sums of a channel at once: of the terms, unless they are doubles, and of their magnitudes.
void sum_channel(Buffer<double>& line, Index batch, Index channel, const std::vector<Index>& sizes,
                 const SourcePlanes& planes, const Outputs& out) {
  const auto each_run = [&](const auto& f) {
    for (Index n = 0; n < batch; ++n)
      for_each_run(line, planes.data + n * planes.batch + channel * planes.channel, sizes, planes.spatial, f);
  };
  const auto sum_exactly = [&](auto sum) {
    each_run([&](const double* x, Index count) {
      for (Index i = 0; i < count; ++i) sum.add(x[i]);
    });
    store_exact(sum, out);
  };
  if (out.type->dtype == DType::f64) return sum_exactly(ExactSums<double>::terms{});
  LaneSums plain, magnitudes;
  Index terms = 0;
  each_run([&](const double* x, Index count) {
    plain.add(x, count, [](double v) { return v; });
    magnitudes.add(x, count, [](double v) { return std::abs(v); });
    terms += count;
  });
  const double value = plain.total();
  const double error = 1.001 * static_cast<double>(terms + 8) * 0x1p-53 * magnitudes.total();
  if (value != 0 && same_rounding_in(out.type->dtype, value - error, value + error)) return store(out, value);
  sum_exactly(ExactSums<float>::terms{});
}

}  // namespace

template <class T>
void bias_sum(Index batch, Index channels, const std::vector<Index>& sizes, const Planes<const T>& planes, T* out,
              Index out_stride) {
  const ConvKernels& kernels = select_conv_kernels();
  const SourcePlanes source = source_planes(planes, kernels);
  const Outputs first = outputs(out, kernels);
  run_tasks<Buffer<double>>(channels, [&](Buffer<double>& line, Index channel) {
    sum_channel(line, batch, channel, sizes, source, first + channel * out_stride);
  });
}

#define HALFULP_INSTANTIATE(T) \
  template void bias_sum<T>(Index, Index, const std::vector<Index>&, const Planes<const T>&, T*, Index);
HALFULP_INSTANTIATE(Float16)
HALFULP_INSTANTIATE(BFloat16)
HALFULP_INSTANTIATE(float)
HALFULP_INSTANTIATE(double)

}  // namespace halfulp::conv
