#include "conv/winograd_engine.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {

namespace {

PatchGrid patch_grid(const Gather& gather) {
  const auto along = [](const GatherAxis& axis) {
    return PatchAxis(axis.positions, axis.source_size, std::min(axis.offset.front(), axis.offset.back()),
                     std::abs(axis.offset[1] - axis.offset[0]));
  };
  return {along(gather[0]), along(gather[1])};
}

}  // namespace

// Three cells evenly along both axes, and channels and positions enough to be worth the transforms.
bool WinogradEngine::fits(const GatherProblem& problem, const ConvKernels& kernels) {
  constexpr Index least_channels = 16, most_channels = 1024;  // more would need too much memory
  if (problem.gather.size() != 2 || problem.variants != 1 || problem.sources.size() > 2) return false;
  if (problem.channels < least_channels || problem.rows < least_channels) return false;
  if (problem.channels * static_cast<Index>(problem.sources.size()) > most_channels) return false;
  if (3 * problem.rows < problem.channels) return false;  // too few outputs for the cells that are transformed
  for (const GatherAxis& axis : problem.gather) {
    if (axis.tap.size() != kPatchTaps || axis.step != 1) return false;
    if (axis.offset[2] - axis.offset[1] != axis.offset[1] - axis.offset[0]) return false;
  }
  return problem.batch * position_count(problem.gather) > 0 &&
         patch_grid(problem.gather).is_worth(problem.batch, kernels.wide.rows);
}

WinogradEngine::WinogradEngine(const GatherProblem& problem, Index group, const ConvKernels& kernels)
    : p_(problem),
      type_(*problem.out.data.type),
      conv_group_(group),
      kernels_(kernels),
      patch_(select_patch_kernels()),
      products_(kernels.wide),
      grid_(patch_grid(problem.gather)),
      channels_(problem.channels * static_cast<Index>(problem.sources.size())),
      total_blocks_(ceil_div(grid_.count(problem.batch), kernels.wide.rows)) {
  const auto tap = [&](std::size_t axis, std::size_t cell) {
    const GatherAxis& one = p_.gather[axis];
    return one.tap[one.offset[1] > one.offset[0] ? cell : kPatchTaps - 1 - cell];
  };
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const Source& source = p_.sources[s];
    tap_offsets_.emplace_back();
    for (std::size_t i = 0; i < kPatchTaps; ++i)
      for (std::size_t j = 0; j < kPatchTaps; ++j)
        tap_offsets_.back().push_back(tap(0, i) * source.spatial[0] + tap(1, j) * source.spatial[1]);
    for (Index c = 0; c < p_.channels; c += kPatchDepth)
      blocks_.push_back({s, c, std::min(kPatchDepth, p_.channels - c), static_cast<Index>(s) * p_.channels + c});
  }
  filter_size_.assign(p_.sources.size(), std::vector<double>(static_cast<std::size_t>(p_.rows)));
  // Groups of like size, a whole number of them for each thread if there are few.
  const Index lane = products_.rows, threads = num_threads();
  const Index most = kPatchGroup / lane;
  groups_ = ceil_div(total_blocks_, most);
  if (groups_ > 1) groups_ = std::min(total_blocks_, ceil_div(groups_, threads) * threads);
  group_patches_ = ceil_div(total_blocks_, groups_) * lane;
  const Index depth = std::min(kPatchDepth, p_.channels);
  roundings_ = static_cast<double>(depth + static_cast<Index>(blocks_.size()) + 1) + patch_.value_roundings;
}

// Panels of like width, as many for every thread if there are output channels enough.
void WinogradEngine::make_panels() {
  const Index lanes = ceil_div(p_.rows, products_.width);
  Index pieces = ceil_div(lanes, products_.vectors);
  pieces = std::min(lanes, ceil_div(pieces, num_threads()) * num_threads());
  Index first = 0;
  for (Index piece = 0; piece < pieces; ++piece) {
    const Index width = (lanes / pieces + (piece < lanes % pieces ? 1 : 0)) * products_.width;
    const Index columns = std::min(width, p_.rows - first);
    panels_.push_back({first, columns, width, 0});
    first += columns;
  }
}

bool WinogradEngine::run() {
  make_panels();
  if (groups_ == 1) {  // every filter is used once: transform it where it is needed, and share out the panels
    run_tasks<Workspace>(static_cast<Index>(panels_.size()),
                         [&](Workspace& work, Index i) { run_group(work, 0, i, i + 1, false); });
    return !refused_;
  }
  const Index count = static_cast<Index>(panels_.size());
  for (Index begin = 0, end = 0; begin < count && !refused_; begin = end) {
    Index size = 0;
    for (; end < count; ++end) {
      PatchPanel& panel = panels_[static_cast<std::size_t>(end)];
      Index more = 0;
      for (const PatchBlock& block : blocks_) more += kPatchValues * block_stride(block, panel.width);
      if (end > begin && (size + more) * static_cast<Index>(sizeof(double)) > kPatchFilterBytes) break;
      panel.packed = size;
      size += more;
    }
    packed_.at_least(size);
    run_tasks<Workspace>(end - begin, [&](Workspace& work, Index i) {
      pack_panel(work, panels_[static_cast<std::size_t>(begin + i)]);
    });
    run_tasks<Workspace>(groups_, [&](Workspace& work, Index i) { run_group(work, i, begin, end, true); });
  }
  return !refused_;
}

void WinogradEngine::run_group(Workspace& work, Index number, Index first_panel, Index last_panel, bool packed) {
  if (refused_) return;
  if (work.group != number) transform_group(work, number);
  work.group = number;
  for (Index i = first_panel; i < last_panel && !refused_; ++i) {
    const PatchPanel& panel = panels_[static_cast<std::size_t>(i)];
    const double* filters = packed ? packed_.at_least(1) + panel.packed : nullptr;
    for (const PatchBlock& block : blocks_) {
      const Index size = kPatchValues * block_stride(block, panel.width);
      if (!packed) {
        double* const out = work.filters.at_least(kPatchValues * odd_lines<double>(kPatchDepth * panel.width));
        transform_block(work, panel, block, out);
        filters = out;
      }
      sum_block(work, panel, block, filters);
      if (packed) filters += size;
    }
    finish(work, panel);
  }
}

bool run_winograd(const GatherProblem& problem, const ConvKernels& kernels) {
  if (!WinogradEngine::fits(problem, kernels)) return false;
  for (Index group = 0; group < problem.groups; ++group)
    if (!WinogradEngine(problem, group, kernels).run()) return false;
  count_engine(Engine::conv_winograd, problem.groups);
  return true;
}

}  // namespace halfulp::conv
