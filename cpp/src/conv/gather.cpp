// The output product and the input product: one engine, two ways to say which source cells meet an output.
#include <algorithm>
#include <memory>
#include <utility>

#include "conv/depthwise.hpp"
#include "conv/gather_engine.hpp"
#include "conv/winograd.hpp"
#include "halfulp/conv.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {
namespace {

// Tasks of several engines, numbered one after the other.
class Numbering {
 public:
  void add(Index count) { ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count); }
  Index count() const { return ends_.empty() ? 0 : ends_.back(); }
  // The engine of a number and what is left of the number.
  std::pair<std::size_t, Index> find(Index number) const {
    const auto found = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), number) - ends_.begin());
    return {found, number - (found == 0 ? 0 : ends_[found - 1])};
  }

 private:
  std::vector<Index> ends_;
};

// Runs the problems together, so that threads meet as rarely as possible. Those that cannot be run in this mode stay in
// the list.
template <class T, class S>
void run_together(std::vector<GatherProblem<T>>& problems, const ConvKernels& kernels) {
  std::vector<std::unique_ptr<GatherEngine<T, S>>> engines;
  const Index share = kPackedBytes / std::max<Index>(1, static_cast<Index>(problems.size()));
  for (const GatherProblem<T>& problem : problems)
    engines.push_back(std::make_unique<GatherEngine<T, S>>(problem, kernels, share));
  std::vector<GatherProblem<T>> refused;
  for (;;) {
    std::vector<GatherEngine<T, S>*> active;
    Numbering packs, tasks;
    for (const auto& engine : engines) {
      if (!engine->usable() || !engine->next_batch()) continue;
      active.push_back(engine.get());
      packs.add(engine->pack_count());
    }
    if (active.empty()) break;
    run_tasks<Buffer<S>>(packs.count(), [&](Buffer<S>& lines, Index number) {
      const auto [engine, unit] = packs.find(number);
      active[engine]->pack_columns(unit, lines);
    });
    std::erase_if(active, [](const auto* engine) { return !engine->usable(); });
    for (const auto* engine : active) tasks.add(engine->task_count());
    count_engine(Engine::conv_gather, tasks.count());
    run_tasks<GatherWorkspace<T, S>>(tasks.count(), [&](GatherWorkspace<T, S>& work, Index number) {
      const auto [engine, task] = tasks.find(number);
      active[engine]->run_task(work, task);
    });
  }
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (!engines[i]->usable()) refused.push_back(problems[i]);
  engines.clear();
  problems.swap(refused);
}

template <class T>
void run(std::vector<GatherProblem<T>> problems, Precision precision) {
  const ConvKernels& kernels = select_conv_kernels();
  if (precision == Precision::fast) {
    for (GatherProblem<T>& problem : problems) problem.mode = Mode::fast;
    run_together<T, std::conditional_t<std::is_same_v<T, double>, double, float>>(problems, kernels);
  }
  for (GatherProblem<T>& problem : problems) problem.mode = std::is_same_v<T, double> ? Mode::twofold : Mode::wide;
  if constexpr (!std::is_same_v<T, double>)
    std::erase_if(problems, [&](const GatherProblem<T>& problem) { return run_by_patches(problem, kernels); });
  run_together<T, double>(problems, kernels);
}

// Planes of one cell, as after a global average: the samples are the positions of one plane, as in a linear layer.
template <class T>
void take_batch_as_positions(GatherProblem<T>& problem) {
  GatherAxis& axis = problem.gather.front();
  const bool single = problem.gather.size() == 1 && axis.tap.size() == 1 && axis.offset[0] == 0 &&
                      axis.positions == 1 && axis.source_size == 1 && axis.out_start == 0;
  if (!single || problem.batch <= 1) return;
  axis.positions = axis.source_size = problem.batch;
  axis.step = axis.out_step = problem.batch = 1;
  for (Source<T>& source : problem.sources) source.planes.spatial[0] = source.planes.batch;
  problem.out.spatial[0] = problem.out.batch;
}

// A product of matrices whose output has its channels side by side, as that of a linear layer: planes and filters
// change places. What is staged piece by piece is then the weight, what is packed once the rows of the input, and
// outputs are written in runs. Every sum keeps its terms and their order.
template <class T>
void exchange(GatherProblem<T>& problem) {
  constexpr Index most = 16;  // so many times the channels: the rows of a long input would be packed for few products
  const GatherAxis& axis = problem.gather.front();
  const bool plain = problem.gather.size() == 1 && axis.tap.size() == 1 && axis.offset[0] == 0 && axis.step == 1 &&
                     axis.out_start == 0 && axis.out_step == 1 && axis.positions == axis.source_size;
  if (!plain || problem.batch != 1 || problem.groups != 1 || problem.variants != 1 || problem.out.channel != 1) return;
  if (problem.channels == 0 || problem.rows == 0 || axis.positions == 0) return;
  if (axis.positions > most * problem.rows) return;
  const Index tap = std::exchange(problem.gather.front().tap[0], 0);  // the only one of this residue
  for (Source<T>& source : problem.sources) {
    const Source<T> given = source;
    source.planes = {given.filters + tap * given.spatial[0], 0, given.channel, {given.row}};
    source.filters = given.planes.data;
    source.row = given.planes.spatial[0];
    source.channel = given.planes.channel;
  }
  std::swap(problem.rows, problem.gather[0].positions);
  problem.gather[0].source_size = problem.gather[0].positions;
  std::swap(problem.out.channel, problem.out.spatial[0]);
  std::swap(problem.bias_stride, problem.bias_position);
}

template <class T>
GatherProblem<T> common(const Geometry& geometry, const T* bias, Index bias_stride, const Planes<T>& out) {
  GatherProblem<T> problem;
  problem.batch = geometry.batch;
  problem.groups = geometry.groups;
  problem.bias = bias;
  problem.bias_stride = bias_stride;
  problem.out = out;
  return problem;
}

// Takes the residue after the problem's as one more variant of its output channels, if it meets the same cells and the
// problem has few output channels otherwise.
template <class T>
bool add_variant(GatherProblem<T>& problem, const Gather& next) {
  constexpr Index few = 16, most = 256;
  const Index channels = problem.rows / problem.variants;
  const GatherAxis &mine = problem.gather.back(), &other = next.back();
  const Index distance = other.out_start - mine.out_start;
  if (channels >= few || problem.rows + channels > most || mine.tap.empty()) return false;
  if (distance != problem.variants || mine.offset != other.offset || mine.positions != other.positions) return false;
  for (std::size_t t = 0; t < mine.tap.size(); ++t)
    if (other.tap[t] - mine.tap[t] != distance) return false;
  for (std::size_t axis = 0; axis + 1 < next.size(); ++axis)
    if (problem.gather[axis].out_start != next[axis].out_start) return false;
  problem.variants += 1;
  problem.rows += channels;
  problem.out_variant = problem.out.spatial.back();
  for (Source<T>& source : problem.sources) source.variant = source.spatial.back();
  return true;
}

}  // namespace

template <class T>
void output_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                    const Planes<T>& out, Precision precision) {
  GatherProblem<T> problem = common(geometry, bias, bias_stride, out);
  problem.channels = geometry.in_channels;
  problem.rows = geometry.out_channels;
  problem.gather = output_gather(geometry);
  for (const Operand<T>& operand : operands) {
    const Filters<const T>& filters = operand.filters;
    problem.sources.push_back({operand.planes, filters.data, filters.out, filters.in,
                               geometry.out_channels * filters.out, 0, filters.spatial});
  }
  if constexpr (std::is_same_v<T, float>)
    if (geometry.in_channels == 1 && precision == Precision::correct && run_depthwise({problem})) return;
  take_batch_as_positions(problem);
  exchange(problem);
  run<T>({problem}, precision);
}

template <class T>
void input_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                   const Planes<T>& out, Precision precision) {
  GatherProblem<T> problem = common(geometry, bias, bias_stride, out);
  problem.channels = geometry.out_channels;
  problem.rows = geometry.in_channels;
  for (const Operand<T>& operand : operands) {
    const Filters<const T>& filters = operand.filters;
    problem.sources.push_back({operand.planes, filters.data, filters.in, filters.out,
                               geometry.out_channels * filters.out, 0, filters.spatial});
  }
  std::vector<GatherProblem<T>> problems;
  std::vector<Gather> gathers = input_gathers(geometry);
  if constexpr (std::is_same_v<T, float>)
    if (geometry.out_channels == 1 && precision == Precision::correct) {
      for (const Gather& gather : gathers) {
        problems.push_back(problem);
        problems.back().gather = gather;
      }
      if (run_depthwise(problems)) return;
      problems.clear();
    }
  for (Gather& gather : gathers) {
    if (!problems.empty() && add_variant(problems.back(), gather)) continue;
    if (problems.size() == 16) {  // enough to keep threads busy, few enough to pack at a time
      run(std::move(problems), precision);
      problems.clear();
    }
    problems.push_back(problem);
    problems.back().gather = std::move(gather);
    take_batch_as_positions(problems.back());
    exchange(problems.back());
  }
  run(std::move(problems), precision);
}

#define HALFULP_INSTANTIATE(T)                                                                                       \
  template void output_product<T>(const Geometry&, const std::vector<Operand<T>>&, const T*, Index, const Planes<T>&, \
                                  Precision);                                                                        \
  template void input_product<T>(const Geometry&, const std::vector<Operand<T>>&, const T*, Index, const Planes<T>&,  \
                                 Precision);
HALFULP_INSTANTIATE(Float16)
HALFULP_INSTANTIATE(BFloat16)
HALFULP_INSTANTIATE(float)
HALFULP_INSTANTIATE(double)

}  // namespace halfulp::conv
