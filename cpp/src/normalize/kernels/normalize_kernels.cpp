// Normalisation over groups, see halfulp/normalize.hpp. Every group is evaluated in double first (float64 in pairs of
// doubles); what that leaves undecided is evaluated again in pairs.
#include "normalize/normalize_kernels.hpp"

#include "base/row_buffer.hpp"
#include "normalize/kernels/columns.hpp"
#include "normalize/kernels/rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// (1 - momentum) old + momentum s from the group's moments
bool quick_statistic(const NormProblem& p, Index group) {
  const GroupMoments m = p.moments_known ? p.moments[group] : group_moments(p, group);
  const double n = static_cast<double>(p.cells()), delta = std::fabs(m.delta), q = m.square * n, d = delta * n;
  double s = m.pivot + m.delta, own = m.delta_error + 2 * kUnit * std::fabs(s);
  if (p.squares) {
    const double left = n - static_cast<double>(p.correction);
    s = (q - n * (m.delta * m.delta)) / left;
    const double total = kMomentError * q + 2.1 * d * m.delta_error + n * m.delta_error * m.delta_error;
    own = (total + 10 * kUnit * (q + d * delta)) / left + 4 * kUnit * std::fabs(s);
  }
  double kept = 0, factor = 1;
  if (p.old != nullptr) {
    kept = (1.0 - p.momentum) * number_at(p.dtype, p.old, group);
    factor = p.momentum;
  }
  const double added = s * factor;
  const double error = own * std::fabs(factor) * 1.01 + 8 * kUnit * (std::fabs(kept) + std::fabs(added));
  return std::isfinite(error) && decide_as(p.dtype, kept + added, error * (1 + 0x1p-20), p.out, group);
}

bool pair_statistic(const NormProblem& p, Index group) {
  PairGroup pairs(p, group);
  if (!pairs.prepare_statistics()) return false;
  if (p.old != nullptr && !in_range(number_at(p.dtype, p.old, group))) return false;
  double error;
  const Pair y = pairs.statistic(error);
  return std::isfinite(error) && decide_as(p.dtype, y, error * (1 + 0x1p-20), p.out, group);
}

void statistic(const NormProblem& problem, Index group, const NormReport& report) {
  if (problem.dtype != DType::f64 && quick_statistic(problem, group)) return;
  if (problem.last || !pair_statistic(problem, group)) report.add(report.list, group);
}

void run(const NormProblem& problem, const CellWeights& weights, Index begin, Index end, const NormReport& report) {
  if (in_rows(problem)) return value_rows(problem, weights, begin, end, report);
  for (Index group = begin; group < end; ++group) QuickGroup(problem, weights, group, report).run();
}

void precise(const NormProblem& problem, Index which, const Index* positions, Index count, const NormReport& report) {
  PreciseGroup pairs(problem, which, report);
  if (count == problem.cells()) pairs.all();
  else pairs.at(positions, count);
}

void last_sums(const NormProblem& problem, Index begin, Index end, bool projections, const ColumnSums& sums) {
  // The squares of cells are known if the moments are the cells' own.
  if (!projections) last_sums_of<false, false>(problem, begin, end, sums);
  else if (problem.mean == nullptr) last_sums_of<true, false>(problem, begin, end, sums);
  else last_sums_of<true, true>(problem, begin, end, sums);
}

bool last_moments(const NormProblem& problem, Index group, const ColumnSums& sums, bool final) {
  return moments_from(problem.moments[group], sums.first[group], sums.second[group], sums.most[group],
                      static_cast<double>(problem.cells()), problem.eps, final);
}

void last_pivots(const NormProblem& problem) {
  const Index count = problem.cells() < 32 ? problem.cells() : 32;
  for (Index j = 0; j < problem.groups; ++j) {
    if (problem.mean != nullptr) {
      problem.moments[j] = given_moments(problem, j);
    } else {
      problem.moments[j] = GroupMoments{};
      problem.moments[j].pivot = pivot_of(problem.dtype, problem.x, j, count, problem.groups);
    }
  }
}

void last_forms(const NormProblem& problem, double* forms) {
  LastForms{problem, padded_width(problem.groups), forms}.fill();
}

CellWeights widen(const NormProblem& p, double* numbers, float* floats) {
  CellWeights weights;
  const Index n = p.inner;
  const void* const given[] = {p.weight, p.bias, p.d_weight, p.d_bias};
  const double** const targets[] = {&weights.weight, &weights.bias, &weights.d_weight, &weights.d_bias};
  for (int i = 0; i < 4; ++i) {
    double* const own = numbers + i * n;
    const double none = i == 0 ? 1.0 : 0.0;
    if (given[i] == nullptr) std::fill_n(own, n, none);
    else widen_to(own, p.dtype, given[i], 0, n);
    weights.largest[i] = given[i] == nullptr ? none : largest_number(own, n);
    *targets[i] = own;
  }
  if (kFused && p.work == NormWork::value && p.dtype != DType::f64)
    split_weights(weights, n, padded_length<float>(n), floats);
  return weights;
}

}  // namespace

const NormKernels& norm_kernels() {
  static const NormKernels table{run,             precise,   pair_weight,  channel_weights_of, add_rows_of,
                                 cell_weights_of, last_sums, last_moments, last_pivots,        last_forms,
                                 last_outputs_of, statistic, widen};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
