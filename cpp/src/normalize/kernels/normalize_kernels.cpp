// Normalisation over groups, see halfulp/normalize.hpp. Every group is evaluated in double first (float64 in pairs of
// doubles); what that leaves undecided is evaluated again in pairs.
#include "normalize/normalize_kernels.hpp"

#include "normalize/kernels/columns.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// (1 - momentum) old + momentum s from the group's moments
template <class T>
bool quick_statistic(const NormProblem& p, Index group) {
  const GroupMoments m = p.moments_known ? p.moments[group] : group_moments<T>(p, group);
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
    kept = (1.0 - p.momentum) * number(static_cast<const T*>(p.old)[group]);
    factor = p.momentum;
  }
  const double added = s * factor;
  const double error = own * std::fabs(factor) * 1.01 + 8 * kUnit * (std::fabs(kept) + std::fabs(added));
  return std::isfinite(error) && decide(kept + added, error * (1 + 0x1p-20), static_cast<T*>(p.out)[group]);
}

template <class T>
bool pair_statistic(const NormProblem& p, Index group) {
  PairGroup<T> pairs(p, group);
  if (!pairs.prepare_statistics()) return false;
  if (p.old != nullptr && !in_range(number(static_cast<const T*>(p.old)[group]))) return false;
  double error;
  const Pair y = pairs.statistic(error);
  return std::isfinite(error) && decide(y, error * (1 + 0x1p-20), static_cast<T*>(p.out)[group]);
}

void statistic(const NormProblem& problem, Index group, const NormReport& report) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) < sizeof(double))
      if (quick_statistic<T>(problem, group)) return;
    if (problem.last || !pair_statistic<T>(problem, group)) report.add(report.list, group);
  });
}

void group(const NormProblem& problem, const CellWeights& weights, Index which, const NormReport& report) {
  visit_float(problem.dtype,
              [&](auto zero) { QuickGroup<decltype(zero)>(problem, weights, which, report).run(); });
}

void precise(const NormProblem& problem, Index which, const Index* positions, Index count, const NormReport& report) {
  visit_float(problem.dtype, [&](auto zero) {
    PreciseGroup<decltype(zero)> pairs(problem, which, report);
    if (count == problem.cells()) pairs.all();
    else pairs.at(positions, count);
  });
}

bool precise_weight(const NormProblem& problem, Index weight) {
  bool decided = false;
  visit_float(problem.dtype, [&](auto zero) { decided = pair_weight<decltype(zero)>(problem, weight); });
  return decided;
}

void channel_weights(const NormProblem& problem, Index begin, Index end, const NormReport& weights,
                     const NormReport& biases) {
  visit_float(problem.dtype,
              [&](auto zero) { channel_weights_of<decltype(zero)>(problem, begin, end, weights, biases); });
}

void add_rows(const NormProblem& problem, Index begin, Index end, const ColumnSums& sums) {
  visit_float(problem.dtype, [&](auto zero) { add_rows_of<decltype(zero)>(problem, begin, end, sums); });
}

void cell_weights(const NormProblem& problem, Index begin, Index end, const ColumnSums& sums,
                  const NormReport& weights, const NormReport& biases) {
  visit_float(problem.dtype,
              [&](auto zero) { cell_weights_of<decltype(zero)>(problem, begin, end, sums, weights, biases); });
}

void last_sums(const NormProblem& problem, Index begin, Index end, bool projections, const ColumnSums& sums) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (projections) last_sums_of<T, true>(problem, begin, end, sums);
    else last_sums_of<T, false>(problem, begin, end, sums);
  });
}

bool last_moments(const NormProblem& problem, Index group, const ColumnSums& sums, bool final) {
  return moments_from(problem.moments[group], sums.first[group], sums.second[group], sums.most[group],
                      static_cast<double>(problem.cells()), problem.eps, final);
}

void last_pivots(const NormProblem& problem) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Index count = problem.cells() < 32 ? problem.cells() : 32;
    for (Index j = 0; j < problem.groups; ++j) {
      if (problem.mean != nullptr) {
        problem.moments[j] = given_moments<T>(problem, j);
      } else {
        problem.moments[j] = GroupMoments{};
        problem.moments[j].pivot = pivot_of(static_cast<const T*>(problem.x) + j, count, problem.groups);
      }
    }
  });
}

void last_forms(const NormProblem& problem, double* forms) {
  visit_float(problem.dtype,
              [&](auto zero) { LastForms<decltype(zero)>{problem, padded_width(problem.groups), forms}.fill(); });
}

void last_outputs(const NormProblem& problem, double* forms, Index begin, Index end, const NormReport& report) {
  visit_float(problem.dtype, [&](auto zero) { last_outputs_of<decltype(zero)>(problem, forms, begin, end, report); });
}

void widen(const NormProblem& problem, const void* from, double* to, Index n) {
  visit_float(problem.dtype, [&](auto zero) {
    for (Index i = 0; i < n; ++i) to[i] = number(static_cast<const decltype(zero)*>(from)[i]);
  });
}

}  // namespace

const NormKernels& norm_kernels() {
  static const NormKernels table{group,        precise,     precise_weight, channel_weights, add_rows,
                                 cell_weights, last_sums,   last_moments,   last_pivots,     last_forms,
                                 last_outputs, statistic,   widen};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
