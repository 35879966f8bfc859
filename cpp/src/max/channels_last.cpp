// Hard max over small windows whose places hold whole vectors (the channels of channels-last storage): every output
// from all its cells, in row-major order, where they lie. Nothing is kept in between, and the rule holds for whatever
// comes.
#include <algorithm>
#include <vector>

#include "base/stream_kernels.hpp"
#include "max/nan.hpp"
#include "max/row_loader.hpp"
#include "max/separable.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

constexpr Index kMostCells = 16;  // of a window: larger ones are cheaper one axis at a time

class Places final : public PlaneEngine {
 public:
  Places(const MaxPlan& plan, const CellType& type, Index lanes)
      : plan_(plan),
        type_(type),
        last_(plan.ndim() - 1),
        lanes_(lanes),
        rule_(plan.nan == NanPolicy::ignore ? MaxRule::absent : MaxRule::propagate),
        kernels_(select_max_kernels().rows[static_cast<int>(type.compared)]) {
    row_.assign(plan.axes.back().output * lanes, type.item);
  }

  bool has_quiet_nans() const noexcept override { return true; }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    Index output[kMaxRank] = {};
    if (last_ == 0) {
      row(plane, output, begin, end);
      return true;
    }
    for (output[0] = begin; output[0] < end;) {
      row(plane, output, 0, plan_.axes.back().output);
      for (int a = last_ - 1; a >= 0; --a) {
        if (++output[a] < plan_.axes[static_cast<std::size_t>(a)].output || a == 0) break;
        output[a] = 0;
      }
    }
    return true;
  }

 private:
  // Outputs [begin, end) of a row.
  void row(const MaxPlane& plane, Index* output, Index begin, Index end) {
    output[last_] = begin;
    char* const target = plane.out.data + walk::position(output, plane.out.strides, last_ + 1);
    const Index step = plane.out.strides[last_];
    const bool stream = plane.stream && step == lanes_ * type_.item;
    char* const made = stream ? row_.data() : target;
    for (Index o = begin, run = 1; o < end; o += run) {
      output[last_] = o;
      run = alike(o, end);
      windows(plane, output, made + (o - begin) * step, {run, lanes_, 0, step / type_.item, type_.flip});
    }
    if (step == lanes_ * type_.item) make_quiet(made, (end - begin) * lanes_);
    else
      for (Index o = 0; o < end - begin; ++o) make_quiet(made + o * step, lanes_);
    if (stream) stream_.copy(made, target, (end - begin) * lanes_ * type_.item);
  }

  // How many outputs from o on have as many cells, a stride apart.
  Index alike(Index o, Index end) const noexcept {
    const MaxPlan::Spans& spans = plan_.spans.back();
    const auto at = [](Index i) { return static_cast<std::size_t>(i); };
    Index run = 1;
    while (o + run < end && spans.count[at(o + run)] == spans.count[at(o)] &&
           spans.begin[at(o + run)] == spans.begin[at(o)] + run * plan_.axes.back().stride)
      ++run;
    return run;
  }

  void make_quiet(char* values, Index n) const {
    if (type_.compared == Compared::f32) make_nans_quiet(reinterpret_cast<float*>(values), n);
    if (type_.compared == Compared::f64) make_nans_quiet(reinterpret_cast<double*>(values), n);
  }

  void windows(const MaxPlane& plane, const Index* output, char* made, RowRun run) {
    taps_.clear();
    walk::cells(plan_, output, plane.x.strides,
                [&](Index offset, Index, Index) { taps_.push_back(plane.x.data + offset); });
    if (plan_.ties == Ties::last) std::reverse(taps_.begin(), taps_.end());
    run.from_step = plan_.axes.back().stride * plane.x.strides[last_] / type_.item;
    const auto fold = kernels_.fold[static_cast<int>(rule_)];
    if (!taps_.empty()) return fold(taps_.data(), static_cast<int>(taps_.size()), made, run);
    for (Index r = 0; r < run.count; ++r)
      std::memset(made + r * run.to_step * type_.item, 0, static_cast<std::size_t>(lanes_ * type_.item));
  }

  const MaxPlan& plan_;
  CellType type_;
  const StreamKernels& stream_ = select_stream_kernels();
  int last_;
  Index lanes_;
  MaxRule rule_;
  const MaxRowKernels& kernels_;
  std::vector<const void*> taps_;
  ItemBuffer row_;
};

}  // namespace

std::unique_ptr<PlaneEngine> make_channels_last(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
  if (!plane.value_only() || plan.window_cells > kMostCells || type.converts() || plane.lanes * type.item < 64)
    return nullptr;
  for (int a = 0; a < plan.ndim(); ++a) {
    if (plan.axes[static_cast<std::size_t>(a)].adaptive) return nullptr;
    if (plane.x.strides[a] % type.item != 0 || plane.out.strides[a] % type.item != 0) return nullptr;
  }
  return std::make_unique<Places>(plan, type, plane.lanes);
}

}  // namespace halfulp
