#include "conv/weight_winograd_engine.hpp"

namespace halfulp::conv {

namespace {

PatchGrid patch_grid(const Geometry& geometry) {
  const auto along = [](const Axis& axis) { return PatchAxis(axis.output, axis.size, -axis.before, axis.dilation); };
  return {along(geometry.axes[0]), along(geometry.axes[1])};
}

}  // namespace

// Three taps along both axes, and channels and positions enough to be worth the transforms.
bool WeightWinogradEngine::fits(const Geometry& geometry) {
  constexpr Index least_channels = 16;
  if (geometry.axes.size() != 2 || geometry.in_channels < least_channels || geometry.out_channels < least_channels)
    return false;
  for (const Axis& axis : geometry.axes)
    if (axis.kernel != kPatchTaps || axis.stride != 1) return false;
  const PatchGrid grid = patch_grid(geometry);
  return grid.count(geometry.batch) >= 4 && grid.is_worth(geometry.batch, 1);
}

WeightWinogradEngine::WeightWinogradEngine(const WeightProblem& problem, const ConvKernels& kernels)
    : p_(problem),
      type_(*problem.out.data.type),
      kernels_(kernels),
      patch_(select_patch_kernels()),
      weight_(select_weight_kernels()),
      products_(kernels.wide),
      terms_(problem),
      grid_(patch_grid(problem)),
      patches_(grid_.count(problem.batch)),
      chunks_(ceil_div(patches_, kChunkPatches)),
      chunk_patches_(ceil_div(patches_, chunks_)),
      flush_(std::min(chunks_, kMostChunkSums)),
      roundings_(static_cast<double>(chunk_patches_ + flush_ + ceil_div(chunks_, flush_) + 1) + weight_.sum_roundings),
      bounds_(patch_.cell_roundings / roundings_, weight_.output_roundings / roundings_) {}

// Blocks of channels of like size; at least one task for each thread, if there are output channels enough.
void WeightWinogradEngine::make_tasks() {
  const Index lanes = ceil_div(p_.out_channels, products_.width);
  const Index in_blocks = ceil_div(p_.in_channels, kPatchTaskChannels);
  Index out_blocks = ceil_div(p_.out_channels, kPatchTaskChannels);
  while (p_.groups * in_blocks * out_blocks < num_threads() && 2 * out_blocks <= lanes) out_blocks *= 2;
  for (Index group = 0; group < p_.groups; ++group) {
    for (Index i = 0; i < in_blocks; ++i) {
      const Index first_in = i * p_.in_channels / in_blocks, end_in = (i + 1) * p_.in_channels / in_blocks;
      for (Index j = 0; j < out_blocks; ++j) {
        const Index first = j * lanes / out_blocks * products_.width;
        const Index end = std::min(p_.out_channels, (j + 1) * lanes / out_blocks * products_.width);
        tasks_.push_back({group, first, end - first, first_in, end_in - first_in});
      }
    }
  }
}

bool WeightWinogradEngine::run() {
  make_tasks();
  run_tasks<Workspace>(static_cast<Index>(tasks_.size()),
                       [&](Workspace& work, Index i) { run_task(work, tasks_[static_cast<std::size_t>(i)]); });
  return !refused_;
}

void WeightWinogradEngine::run_task(Workspace& work, const WeightTask& task) {
  if (refused_) return;
  work.width = ceil_div(task.outs, products_.width) * products_.width;
  work.rows = ceil_div(task.ins, products_.rows) * products_.rows;
  const Index size = kPatchValues * sum_stride(work);
  double* const sums = work.sums.at_least(size);
  double* const totals = chunks_ > flush_ ? work.totals.at_least(size) : nullptr;
  if (totals != nullptr) std::fill_n(totals, size, 0.0);
  work.input_squares.assign(static_cast<std::size_t>(task.ins * kPatchValues), 0.0);
  work.input_size.assign(static_cast<std::size_t>(task.ins), 0.0);
  const Index square_count = (kPatchValues + 1) * work.width;
  std::fill_n(work.output_squares.at_least(square_count), square_count, 0.0);
  for (Index chunk = 0; chunk < chunks_; ++chunk) {
    poll_interrupts();
    find_runs(work, chunk);
    transform_cells(work, task);
    transform_outputs(work, task);
    sum_chunk(work, task, chunk % flush_ == 0);
    if (totals == nullptr || (chunk % flush_ != flush_ - 1 && chunk + 1 != chunks_)) continue;
    for (Index i = 0; i < size; ++i) totals[i] += sums[i];
  }
  if (totals != nullptr) std::copy_n(totals, size, sums);
  find_sizes(work, task);
  work.sparse.reset(task.ins, task.outs);
  if (!refused_) finish(work, task);
}

}  // namespace halfulp::conv
