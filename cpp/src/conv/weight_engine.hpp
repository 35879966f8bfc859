// The weight product: for every output channel m, input channel c and tap t, the sum over batch and positions of
// outputs[n, m, o] * inputs[n, c, i(o, t)]. Tasks own disjoint parts of the result and walk the whole batch in one fixed
// order, so no partial results meet. Two routes:
// - matrix: output channels in vector lanes, rows are (c, t), the sum runs over positions;
// - dot: positions in vector lanes; for few output channels in a group (depthwise).
#pragma once

#include "grid.hpp"
#include "gather_problem.hpp"
#include "measure.hpp"
#include "stage.hpp"
#include "tasks.hpp"

namespace halfulp::conv {

inline constexpr Index kWeightTile = 256;  // positions whose products are staged together
inline constexpr Index kDotTile = 2048;
inline constexpr Index kWeightBlock = 128;
inline constexpr Index kWeightSlabBytes = 192 << 10;
inline constexpr Index kWeightSumBytes = 512 << 10;

template <class T, class S>
struct WeightWorkspace {
  SlabPlan plan;
  Buffer<S> slab, lines, panel, sums, high, low;
  Buffer<double> bound, floors;
  Buffer<T> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<const S*> rows;
  std::vector<Index> offsets;
  Index step = 1;   // input channels that are staged together
  Index plane = 0;  // distance from high to low parts of the sums
};

// A part of the result: output channels [first_out, …) and input channels [first_in, …) of one group.
struct WeightTask {
  Index group, first_out, outs, first_in, ins;
};

template <class T, class S>
class WeightEngine {
 public:
  using Workspace = WeightWorkspace<T, S>;

  WeightEngine(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
               const Filters<T>& out, Mode mode, const ConvKernels& kernels);
  void run();

 private:
  void measure();
  void make_tasks();
  void run_task(Workspace& work, const WeightTask& task);
  // weight_sums.hpp
  void load_outputs(Workspace& work, const WeightTask& task, Index n, const Tile& tile, Index line);
  void matrix_tile(Workspace& work, const WeightTask& task, Index n, const Tile& tile);
  void dot_tile(Workspace& work, const WeightTask& task, Index n, const Tile& tile);
  // weight_finish.hpp
  void finish(Workspace& work, const WeightTask& task);
  void collect(Workspace& work, const WeightTask& task, Index in, Index tap);
  void finish_correct(Workspace& work, const WeightTask& task, Index in, Index tap);
  Index accept(Workspace& work, Index n);
  T resolve(Index group, Index out, Index in, Index tap, double value, double bound) const;
  template <class F>
  bool for_each_product(Index group, Index out, Index in, Index tap, const F& f) const;
  template <class F>
  bool walk_axis(std::size_t axis, Index tap, const T* output, const T* input, const F& f) const;
  // The row of the sums that belongs to an input channel of the task and a tap: stagings fill whole groups of rows.
  Index row_of(const Workspace& work, Index in, Index tap) const {
    const Index staged = ceil_div(work.step * taps_, products_.rows) * products_.rows;
    return in / work.step * staged + in % work.step * taps_ + tap;
  }
  double find_exact_limit() const;
  Index filter_offset(Index tap) const;

  const Geometry& g_;
  const Planes<const T>& inputs_;
  const Planes<const T>& outputs_;
  const Filters<T>& out_;
  const ConvKernels& kernels_;
  const ProductKernels<S>& products_;
  const bool correct_, twofold_, dot_;
  const Gather gather_;
  const Tiling tiling_;
  const Index taps_;
  double additions_ = 0, gamma_ = 0;
  std::vector<double> input_size_, output_size_;
  std::vector<WeightTask> tasks_;
  ExactLimit exact_;
};

template <class T, class S>
WeightEngine<T, S>::WeightEngine(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
                                 const Filters<T>& out, Mode mode, const ConvKernels& kernels)
    : g_(geometry),
      inputs_(inputs),
      outputs_(outputs),
      out_(out),
      kernels_(kernels),
      products_(product_kernels<S>(kernels, mode)),
      correct_(mode != Mode::fast),
      twofold_(mode == Mode::twofold),
      dot_(2 * geometry.out_channels < products_.width),
      gather_(output_gather(geometry)),
      tiling_(gather_, dot_ ? kDotTile : kWeightTile),
      taps_(tap_count(gather_)) {
  const Index last = gather_.back().positions;
  const Index per_tile = dot_ ? tiling_.largest() : ceil_div(tiling_.largest(), kWeightBlock);
  const Index inner = dot_ ? ceil_div(last, products_.width) + products_.width : kWeightBlock;
  additions_ = static_cast<double>(inner) + static_cast<double>(g_.batch) * static_cast<double>(tiling_.count() * per_tile) + 2;
  const double unit = 0x1p-53;
  gamma_ = twofold_ ? 4 * (additions_ + 2) * (additions_ + 2) * unit * unit : 1.001 * (additions_ + 8) * unit;
}

template <class T, class S>
void WeightEngine<T, S>::measure() {
  std::vector<Index> in_sizes, out_sizes;
  for (const Axis& axis : g_.axes) in_sizes.push_back(axis.size), out_sizes.push_back(axis.output);
  input_size_ = measure_channels(kernels_, g_.batch, g_.groups * g_.in_channels, in_sizes, inputs_,
                                 twofold_ ? Measure::largest : Measure::norm);
  output_size_ = measure_channels(kernels_, g_.batch, g_.groups * g_.out_channels, out_sizes, outputs_,
                                  twofold_ ? Measure::sum : Measure::norm);
}

template <class T, class S>
void WeightEngine<T, S>::make_tasks() {
  const Index lane = dot_ ? 1 : products_.width;
  const Index lanes = ceil_div(g_.out_channels, lane);
  const Index pieces = dot_ ? 1 : ceil_div(lanes, products_.vectors);
  const Index width = ceil_div(lanes, pieces) * lane;
  const Index row_bytes = taps_ * (dot_ ? products_.width * g_.out_channels : width) * static_cast<Index>(sizeof(S)) * (twofold_ ? 2 : 1);
  Index ins = std::clamp<Index>(kWeightSumBytes / row_bytes, 1, g_.in_channels);
  const Index wanted = 3 * num_threads();
  while (ins > 1 && g_.groups * pieces * ceil_div(g_.in_channels, ins) < wanted) ins = ceil_div(ins, 2);
  for (Index group = 0; group < g_.groups; ++group) {
    Index first_out = 0;
    for (Index piece = 0; piece < pieces; ++piece) {
      const Index share = (lanes / pieces + (piece < lanes % pieces ? 1 : 0)) * lane;
      const Index outs = std::min(share, g_.out_channels - first_out);
      for (Index first_in = 0; first_in < g_.in_channels; first_in += ins)
        tasks_.push_back({group, first_out, outs, first_in, std::min(ins, g_.in_channels - first_in)});
      first_out += outs;
    }
  }
}

template <class T, class S>
void WeightEngine<T, S>::run() {
  if (g_.groups * g_.out_channels * g_.in_channels == 0) return;
  if (correct_) measure();
  make_tasks();
  run_tasks<Workspace>(static_cast<Index>(tasks_.size()),
                       [&](Workspace& work, Index i) { run_task(work, tasks_[static_cast<std::size_t>(i)]); });
}

template <class T, class S>
void WeightEngine<T, S>::run_task(Workspace& work, const WeightTask& task) {
  const Index cell_bytes = static_cast<Index>(sizeof(S));
  const Index tiles = g_.batch == 0 || position_count(gather_) == 0 ? 0 : tiling_.count();
  if (tiles > 0) work.plan.plan(gather_, tiling_.tile(0), dot_);  // no tile has a larger slab
  work.step = std::clamp<Index>(kWeightSlabBytes / (std::max<Index>(1, work.plan.cells()) * cell_bytes), 1, task.ins);
  work.plane = dot_ ? products_.width * task.outs * task.ins * taps_
                    : ceil_div(task.outs, products_.width) * products_.width * row_of(work, ceil_div(task.ins, work.step) * work.step, 0);
  const Index size = work.plane * (twofold_ ? 2 : 1);
  std::fill_n(work.sums.at_least(size), size, S(-0.0));
  for (Index n = 0; n < g_.batch; ++n) {
    for (Index i = 0; i < tiles; ++i) {
      const Tile tile = tiling_.tile(i);
      work.plan.plan(gather_, tile, dot_);
      if (dot_) dot_tile(work, task, n, tile);
      else matrix_tile(work, task, n, tile);
    }
  }
  finish(work, task);
}

}  // namespace halfulp::conv

#include "weight_finish.hpp"
#include "weight_sums.hpp"
