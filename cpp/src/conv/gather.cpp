// The output product and the input product: both become gather problems, two ways to say which source cells meet an
// output. Engines are tried in turn: depthwise, Winograd, gather.
#include <algorithm>
#include <memory>
#include <utility>

#include "conv/depthwise.hpp"
#include "conv/gather_engine.hpp"
#include "conv/winograd_engine.hpp"
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
template <class S>
void run_together(std::vector<GatherProblem>& problems, const ConvKernels& kernels) {
  std::vector<std::unique_ptr<GatherEngine<S>>> engines;
  const Index share = kPackedBytes / std::max<Index>(1, static_cast<Index>(problems.size()));
  for (const GatherProblem& problem : problems)
    engines.push_back(std::make_unique<GatherEngine<S>>(problem, kernels, share));
  std::vector<GatherProblem> refused;
  for (;;) {
    std::vector<GatherEngine<S>*> active;
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
    run_tasks<GatherWorkspace<S>>(tasks.count(), [&](GatherWorkspace<S>& work, Index number) {
      const auto [engine, task] = tasks.find(number);
      active[engine]->run_task(work, task);
    });
  }
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (!engines[i]->usable()) refused.push_back(problems[i]);
  engines.clear();
  problems.swap(refused);
}

// Runs the problems, as many together as leave each its packed filters.
template <class S>
void run_all(std::vector<GatherProblem>& problems, const ConvKernels& kernels) {
  std::vector<GatherProblem> refused, together;
  Index size = 0;
  const auto finish = [&] {
    run_together<S>(together, kernels);
    refused.insert(refused.end(), together.begin(), together.end());
    together.clear();
    size = 0;
  };
  for (GatherProblem& problem : problems) {
    const Index filters = problem.groups * problem.rows * problem.channels * static_cast<Index>(problem.sources.size());
    const Index packed = filters * problem.taps() * static_cast<Index>(sizeof(S));
    if (!together.empty() && size + packed > kPackedBytes) finish();
    size += packed;
    together.push_back(std::move(problem));
  }
  finish();
  problems.swap(refused);
}

// Every problem in parts that meet fewer taps, where that is worth it.
void split(std::vector<GatherProblem>& problems) {
  constexpr Index many = 256;  // channels, beside whose products what else a part costs is little
  std::vector<GatherProblem> parts;
  for (const GatherProblem& problem : problems) {
    const double worth = problem.mode == Mode::fast && problem.channels < many ? 0.4 : 0.75;
    for (Gather& gather : split_by_taps(problem.gather, problem.batch, worth)) {
      parts.push_back(problem);
      parts.back().gather = std::move(gather);
    }
  }
  problems.swap(parts);
}

void run(std::vector<GatherProblem> problems, Precision precision) {
  if (problems.empty()) return;
  for (GatherProblem& problem : problems) problem.gather = trimmed(problem.gather);
  const ConvKernels& kernels = select_conv_kernels();
  const bool doubles = problems.front().out.data.type->dtype == DType::f64;
  if (precision == Precision::fast) {
    for (GatherProblem& problem : problems) problem.mode = Mode::fast;
    split(problems);
    if (doubles) run_all<double>(problems, kernels);
    else run_all<float>(problems, kernels);
  }
  for (GatherProblem& problem : problems) problem.mode = doubles ? Mode::twofold : Mode::wide;
  if (!doubles)
    std::erase_if(problems, [&](const GatherProblem& problem) { return run_winograd(problem, kernels); });
  split(problems);
  run_all<double>(problems, kernels);
}

// Planes of one cell, as after a global average: the samples are the positions of one plane, as in a linear layer.
void take_batch_as_positions(GatherProblem& problem) {
  GatherAxis& axis = problem.gather.front();
  const bool single = problem.gather.size() == 1 && axis.tap.size() == 1 && axis.offset[0] == 0 &&
                      axis.positions == 1 && axis.source_size == 1 && axis.out_start == 0;
  if (!single || problem.batch <= 1) return;
  axis.positions = axis.source_size = problem.batch;
  axis.step = axis.out_step = problem.batch = 1;
  for (Source& source : problem.sources) source.planes.spatial[0] = source.planes.batch;
  problem.out.spatial[0] = problem.out.batch;
}

// A product of matrices whose output has its channels side by side, as that of a linear layer: planes and filters
// change places. What is staged piece by piece is then the weight, what is packed once the rows of the input, and
// outputs are written in runs. Every sum keeps its terms and their order.
void exchange(GatherProblem& problem) {
  constexpr Index most = 16;  // so many times the channels: the rows of a long input would be packed for few products
  const GatherAxis& axis = problem.gather.front();
  const bool plain = problem.gather.size() == 1 && axis.tap.size() == 1 && axis.offset[0] == 0 && axis.step == 1 &&
                     axis.out_start == 0 && axis.out_step == 1 && axis.positions == axis.source_size;
  if (!plain || problem.batch != 1 || problem.groups != 1 || problem.variants != 1 || problem.out.channel != 1) return;
  if (problem.channels == 0 || problem.rows == 0 || axis.positions == 0) return;
  if (axis.positions > most * problem.rows) return;
  const Index tap = std::exchange(problem.gather.front().tap[0], 0);  // the only one of this residue
  for (Source& source : problem.sources) {
    const Source given = source;
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

// Takes the residue after the problem's as one more variant of its output channels, if it meets the same cells and the
// problem has few output channels otherwise.
bool add_variant(GatherProblem& problem, const Gather& next) {
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
  for (Source& source : problem.sources) source.variant = source.spatial.back();
  return true;
}

// The problem of either product; for the input product the channels change places.
template <class T>
GatherProblem problem_of(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias,
                         Index bias_stride, const Planes<T>& out, bool input) {
  const ConvKernels& kernels = select_conv_kernels();
  GatherProblem problem;
  problem.batch = geometry.batch;
  problem.groups = geometry.groups;
  problem.channels = input ? geometry.out_channels : geometry.in_channels;
  problem.rows = input ? geometry.in_channels : geometry.out_channels;
  problem.bias = elements(bias, kernels);
  problem.bias_stride = bias_stride;
  problem.out = output_planes(out, kernels);
  for (const Operand<T>& operand : operands) {
    const Filters<const T>& filters = operand.filters;
    problem.sources.push_back({source_planes(operand.planes, kernels), elements(filters.data, kernels),
                               input ? filters.in : filters.out, input ? filters.out : filters.in,
                               geometry.out_channels * filters.out, 0, filters.spatial});
  }
  return problem;
}

bool may_be_depthwise(const GatherProblem& problem, Precision precision) {
  return problem.channels == 1 && precision == Precision::correct && problem.out.data.type->dtype == DType::f32;
}

void run_output_product(const Geometry& geometry, GatherProblem problem, Precision precision) {
  problem.gather = output_gather(geometry);
  if (may_be_depthwise(problem, precision) && run_depthwise({problem})) return;
  take_batch_as_positions(problem);
  exchange(problem);
  run({problem}, precision);
}

void run_input_product(const Geometry& geometry, const GatherProblem& problem, Precision precision) {
  std::vector<GatherProblem> problems;
  std::vector<Gather> gathers = input_gathers(geometry);
  if (may_be_depthwise(problem, precision)) {
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

}  // namespace

template <class T>
void output_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                    const Planes<T>& out, Precision precision) {
  run_output_product(geometry, problem_of(geometry, operands, bias, bias_stride, out, false), precision);
}

template <class T>
void input_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                   const Planes<T>& out, Precision precision) {
  run_input_product(geometry, problem_of(geometry, operands, bias, bias_stride, out, true), precision);
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
