// From the sums of the weight product by patches to weights: bounds, acceptance, resolution of the rest.
#include "conv/weight_winograd_engine.hpp"

namespace halfulp::conv {

// The factors of the bound: reach[input channel][tap] and sizes[tap][output channel].
void WeightWinogradEngine::find_sizes(Workspace& work, const WeightTask& task) {
  constexpr Index taps = kPatchTaps * kPatchTaps;
  double* const reach = work.reach.at_least(task.ins * taps);
  double* const sizes = work.sizes.at_least(taps * work.width);
  const double* const squares = work.output_squares.at_least(1);
  bool finite = true;
  for (Index c = 0; c < task.ins; ++c) {
    const double size = work.input_size[static_cast<std::size_t>(c)];
    finite = finite && std::isfinite(size);
    bounds_.factors(work.input_squares.data() + c * kPatchValues, 1, std::sqrt(size), true, reach + c * taps, 1);
  }
  for (Index m = 0; m < task.outs; ++m) {
    const double size = squares[kPatchValues * work.width + m];
    finite = finite && std::isfinite(size);
    bounds_.factors(squares + m, work.width, std::sqrt(size), false, sizes + m, work.width);
  }
  if (!finite) refused_ = true;
}

void WeightWinogradEngine::finish(Workspace& work, const WeightTask& task) {
  constexpr Index taps = kPatchTaps * kPatchTaps;
  double* const sums = work.taps.at_least(taps * work.width);
  const Outputs rounded{work.rounded.at_least(taps * work.width * type_.size), &type_};
  std::fill_n(work.floors.at_least(task.outs), task.outs, kZeroWeightMargin);
  work.bad.at_least(task.outs);
  for (Index in = 0; in < task.ins; ++in) {
    weight_.taps(work.sums.at_least(1) + in * work.width, sum_stride(work), work.width, sums, work.width);
    for (Index tap = 0; tap < taps; ++tap)
      if (!finish_tap(work, task, in, tap)) return;
    const Index first = task.group * p_.out_channels + task.first_out;
    const Outputs out = p_.out.data + first * p_.out.out + (task.first_in + in) * p_.out.in;
    visit_bits(type_.dtype, [&]<class Bits>(Bits) {
      for (Index m = 0; m < task.outs; ++m)
        for (Index tap = 0; tap < taps; ++tap)
          out.as<Bits>()[m * p_.out.out + tap / kPatchTaps * p_.out.spatial[0] + tap % kPatchTaps * p_.out.spatial[1]] =
              rounded.as<Bits>()[tap * work.width + m];
    });
  }
}

bool WeightWinogradEngine::finish_tap(Workspace& work, const WeightTask& task, Index in, Index tap) {
  constexpr Index few = 256;
  const double gamma = 1.001 * (roundings_ + 8) * 0x1p-53;
  const double reach = work.reach.at_least(1)[in * kPatchTaps * kPatchTaps + tap];
  const double* const sizes = work.sizes.at_least(1) + tap * work.width;
  double* const sums = work.taps.at_least(1) + tap * work.width;
  const Outputs out = Outputs{work.rounded.at_least(1), &type_} + tap * work.width;
  const Acceptance a{task.outs, {sizes, nullptr}, {reach, 0}, 0, -0.0, work.floors.at_least(1), gamma, 0.0};
  std::uint8_t* const bad = work.bad.at_least(1);
  work.seen += task.outs;
  const Index count = type_.accept(sums, nullptr, a, out.at, bad);
  if (count == 0) return true;
  const bool zeros = reach == 0 || terms_.meets_zeros({task, 0, in, tap});
  for (Index m = 0; m < task.outs; ++m) {
    if (bad[m] == 0) continue;
    const bool zero = zeros || sizes[m] == 0;  // decided by one look
    if (!zero) {
      if (terms_.resolve_sparse(work.sparse, {task, m, in, tap}, out + m)) continue;
      work.undecided += 1;
    }
    if (work.undecided >= few && work.undecided * kUndecidedWeights > work.seen) {
      refused_ = true;
      return false;
    }
    terms_.resolve({task, m, in, tap}, zero ? 0.0 : sums[m], zero, out + m);
  }
  return true;
}

}  // namespace halfulp::conv
