#include "halfulp/smooth_max_pool.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/undecided.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"
#include "smooth/block.hpp"
#include "smooth/pass.hpp"

namespace halfulp {
namespace {

// Runs body(block, pass, band) over all bands of all planes; each thread has its own block and pass.
template <class T, class Body>
void over_bands(const SmoothPlan& plan, const ArrayView& x, Body body) {
  const Index rows = plan.axes.front().output, band_rows = smooth_band_rows(plan);
  const Index bands = (rows + band_rows - 1) / band_rows;
  parallel_for(plane_count(plan, x) * bands, 1, [&](Index begin, Index end) {
    SmoothBlock<T> block(plan);
    SmoothPass<T> pass(plan, x);
    for (Index item = begin; item < end; ++item) {
      poll_interrupts();
      const Index first = item % bands * band_rows;
      body(block, pass, SmoothBand{item / bands, first, std::min(first + band_rows, rows)});
    }
  });
}

// A band or plane of the vector engine, and how many outputs it leaves.
void count_smooth(bool tried, const std::vector<Index>& left) {
  if (tried) count_engine(Engine::smooth_block);
  if (!left.empty()) count_engine(Engine::smooth_window, static_cast<Index>(left.size()));
}

std::vector<Index> numbers(Index begin, Index end) {
  std::vector<Index> all(static_cast<std::size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

std::vector<Index> all_outputs(const SmoothPlan& plan, const SmoothBand& band) {
  const Index row = output_count(plan) / plan.axes.front().output;
  return numbers(band.begin * row, band.end * row);
}

}  // namespace

SmoothPlan smooth_plan(std::vector<Axis> axes, SmoothBeta beta) {
  SmoothPlan plan;
  plan.windows = average_plan(axes, true, 0).axes;
  plan.axes = std::move(axes);
  plan.beta = beta;
  return plan;
}

std::vector<Index> smooth_forward(const SmoothPlan& plan, const ArrayView& x, const ArrayView& out) {
  if (out.count() == 0) return {};
  Undecided values;
  visit_float(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_bands<T>(plan, x, [&](SmoothBlock<T>& block, SmoothPass<T>& pass, const SmoothBand& band) {
      std::vector<Index> left;
      const bool tried = block.forward(band, x, out, left);
      if (!tried) left = all_outputs(plan, band);
      count_smooth(tried, left);
      values.add(pass.forward(band.plane, left, out));
    });
  });
  return values.take();
}

std::pair<std::vector<Index>, std::vector<Index>> smooth_jvp(const SmoothPlan& plan, const ArrayView& x,
                                                             const ArrayView& tangent, const ArrayView& out,
                                                             const ArrayView& out_tangent) {
  if (out.count() == 0) return {};
  Undecided values, tangents;
  visit_float(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_bands<T>(plan, x, [&](SmoothBlock<T>& block, SmoothPass<T>& pass, const SmoothBand& band) {
      std::vector<Index> left, tangents_left;
      const bool tried = block.forward(band, x, out, left);
      if (!tried) left = all_outputs(plan, band);
      if (!tried || !block.tangent(tangent, out_tangent, tangents_left)) tangents_left = all_outputs(plan, band);
      count_smooth(tried, left);
      values.add(pass.forward(band.plane, left, out));
      tangents.add(pass.jvp(band.plane, tangents_left, tangent, out_tangent));
    });
  });
  return {values.take(), tangents.take()};
}

std::vector<Index> smooth_vjp(const SmoothPlan& plan, const ArrayView& x, const ArrayView& cotangent,
                              const ArrayView& dx) {
  if (dx.count() == 0) return {};
  Undecided all;
  visit_float(x.dtype, [&](auto type) {
    using T = decltype(type);
    parallel_for(plane_count(plan, x), 1, [&](Index begin, Index end) {
      SmoothBlock<T> block(plan);
      SmoothPass<T> pass(plan, x);
      for (Index plane = begin; plane < end; ++plane) {
        poll_interrupts();
        std::vector<Index> left;
        const bool tried = block.vjp(plane, x, cotangent, dx, left);
        if (!tried) left = numbers(0, cell_count(plan));
        count_smooth(tried, left);
        all.add(pass.vjp(plane, left, cotangent, dx));
      }
    });
  });
  return all.take();
}

}  // namespace halfulp
