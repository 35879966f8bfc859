// Values of layer norm, several rows at a time: they share what is loaded of weights and biases, and the coefficients
// of one row are found while the cells of another are summed. For kernels only.
#pragma once

#include "normalize/kernels/planes.hpp"
#include "simd/hints.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

class ValueRow {
 public:
  static constexpr Rule kRule = Rule::cell_value;

  ValueRow(const NormProblem& p, const CellWeights& weights, Index group, const GroupMoments& moments)
      : p_(p), group_(group), reach_{form_, weights} {
    normal_part(form_, moments);
    if (moments.good == 0 || !form_.finite()) return;
    reach_.set(moments.largest, moments.largest + std::fabs(moments.pivot), 0.0);
    from_ = {static_cast<const float*>(p.x) + start(), nullptr, weights};
  }
  ValueRow(const ValueRow&) = delete;
  ValueRow& operator=(const ValueRow&) = delete;

  bool quick() const { return reach_.floats.good(); }
  const FloatForm<kRule>& floats() const { return reach_.floats; }
  const Sources& from() const { return from_; }
  float* out() const { return static_cast<float*>(p_.out) + start(); }

  // Cells in double.
  void wide(Index at, Index end) { run().wide(at, end); }
  // The cells from `at` on, without another row, and those that are left in pairs of doubles.
  void finish(Index at, const NormReport& report) {
    run().float_vectors(at, p_.inner);
    if (undecided_.count == 0) return;
    PreciseGroup precise(p_, group_, report);
    if (undecided_.count > Undecided::capacity) precise.all();
    else precise.at(undecided_.positions, undecided_.count);
  }

 private:
  Index start() const { return p_.start(group_, 0); }
  Run<kRule> run() { return {form_, from_, p_, out(), start(), undecided_, reach_}; }

  const NormProblem& p_;
  Index group_;
  Form form_;
  Reach<kRule> reach_;
  Sources from_{};
  Undecided undecided_;
};

// The cells of some rows, as many as whole blocks hold, or until too many blocks are undecided; returns where it stops.
// Outputs that are far, in no near cache, are asked for before they are written.
template <int count>
inline Index side_by_side(ValueRow* const (&rows)[count], Index n, bool far) {
  constexpr Index width = kLanes<float>, together = 4 * width;
  FloatForm<ValueRow::kRule> forms[count];
  const float* x[count];
  float* out[count];
  for (int row = 0; row < count; ++row) {
    forms[row] = rows[row]->floats();
    x[row] = rows[row]->from().x;
    out[row] = rows[row]->out();
  }
  const int level = forms[0].level();
  const CellWeights& weights = rows[0]->from().weights;
  const float *const factors = weights.float_weight, *const shifts = weights.bias_shift[level];
  const float *const lows = weights.bias_low[level], *const highs = weights.bias_high[level];
  Index at = 0;
  for (Index most = n / (16 * together) + 4; at + together <= n; at += together) {
    WordVector odd[count]{}, beyond{};
    for (Index i = at; i < at + together; i += 16)
      for (int row = 0; row < count; ++row) {
        prefetch_line(x[row] + count * n + i);
        if (far) prefetch_to_write(out[row] + count * n + i);
      }
HALFULP_UNROLL(4)
    for (int step = 0; step < 4; ++step) {
      const Index i = at + step * width;
      const FloatVector w[1] = {in_register(load(factors + i))}, none[1]{};
      const CellBias bias[1] = {
          {in_register(load(shifts + i)), in_register(load(lows + i)), in_register(load(highs + i))}};
HALFULP_UNROLL(8)
      for (int row = 0; row < count; ++row) {
        const FloatVector cells[1] = {in_register(load(x[row] + i))};
        FloatVector results[1];
        forms[row].template values<true>(cells, none, w, bias, results, odd[row], beyond);
        store(out[row] + i, results[0]);
      }
    }
    WordVector any{};
    for (int row = 0; row < count; ++row) any |= odd[row];
    if (!any_bit(any)) continue;
    for (int row = 0; row < count; ++row)
      if (any_bit(odd[row])) rows[row]->wide(at, at + together);
    if (--most > 0) continue;
    for (ValueRow* const row : rows) row->wide(at + together, n);
    return n;
  }
  return at;
}

// Whether rows are taken by value_rows.
inline bool in_rows(const NormProblem& p) {
  return FloatForm<ValueRow::kRule>::exists && p.per_cell && p.work == NormWork::value && p.dtype == DType::f32 &&
         p.mean == nullptr && !p.joint && p.out != nullptr && p.inner >= 4 * kLanes<float>;
}

inline void value_rows(const NormProblem& p, const CellWeights& weights, Index begin, Index end,
                       const NormReport& report) {
  constexpr Index kNear = Index{3} << 18;  // cells, with their outputs several times a second-level cache
  const bool far = p.size() > kNear;
  bool finite = true, at_zero = true;
  for (const double size : weights.largest) finite = finite && std::isfinite(size);
  const auto moments_of = [&](Index group) {
    if (p.moments_known) return p.moments[group];
    const GroupMoments m = group_moments(p, group, at_zero);
    if (p.moments != nullptr) p.moments[group] = m;
    const double mean = m.pivot + m.delta;
    at_zero = mean * mean <= m.square - m.delta * m.delta;
    return m;
  };
  const auto alone = [&](Index group, const GroupMoments& moments) {
    QuickGroup(p, weights, group, report).run(&moments);
  };
  for (; begin + 2 <= end; begin += 2) {
    const GroupMoments moments[2] = {moments_of(begin), moments_of(begin + 1)};
    ValueRow first(p, weights, begin, moments[0]), second(p, weights, begin + 1, moments[1]);
    if (finite && first.quick() && second.quick() && first.floats().level() == second.floats().level()) {
      const Index at = side_by_side<2>({&first, &second}, p.inner, far);
      first.finish(at, report);
      second.finish(at, report);
    } else {
      alone(begin, moments[0]);
      alone(begin + 1, moments[1]);
    }
  }
  if (begin < end) alone(begin, moments_of(begin));
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
