// Hard max over small windows whose places hold whole vectors (the channels of channels-last storage): every output
// from all its cells, in row-major order, where they lie. Nothing is kept in between, and the rule holds for whatever
// comes.
#include <vector>

#include "max/max_kernels.hpp"
#include "base/stream_kernels.hpp"
#include "max/nan.hpp"
#include "max/separable.hpp"
#include "max/walk.hpp"
#include "base/row_buffer.hpp"

namespace halfulp {
namespace {

constexpr Index kMostCells = 16;  // of a window: larger ones are cheaper one axis at a time

template <class C, class P>
class Places final : public PlaneEngine {
 public:
  Places(const MaxPlan& plan, const MaxRowKernels<C, P>& kernels, Index lanes)
      : plan_(plan), last_(plan.ndim() - 1), lanes_(lanes) {
    const MaxRule rule = plan.nan == NanPolicy::ignore ? MaxRule::absent : MaxRule::propagate;
    fold_ = kernels.fold_exact[static_cast<int>(rule)][plan.ties == Ties::last ? 1 : 0];
    row_.assign(plan.axes.back().output * lanes, C{});
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
  static constexpr Index kItem = static_cast<Index>(sizeof(C));

  // Outputs [begin, end) of a row.
  void row(const MaxPlane& plane, Index* output, Index begin, Index end) {
    output[last_] = begin;
    char* const target = plane.out.data + walk::position(output, plane.out.strides, last_ + 1);
    const Index step = plane.out.strides[last_];
    const bool stream = plane.stream && step == lanes_ * kItem;
    C* const made = stream ? row_.data() : reinterpret_cast<C*>(target);
    for (Index o = begin, run = 1; o < end; o += run) {
      output[last_] = o;
      run = alike(o, end);
      windows(plane, output, made + (o - begin) * (step / kItem), {run, lanes_, 0, step / kItem});
    }
    if (step == lanes_ * kItem) make_nans_quiet(made, (end - begin) * lanes_);
    else
      for (Index o = 0; o < end - begin; ++o) make_nans_quiet(made + o * (step / kItem), lanes_);
    if (stream) stream_.copy(reinterpret_cast<const char*>(made), target, (end - begin) * lanes_ * kItem);
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

  void windows(const MaxPlane& plane, const Index* output, C* made, RowRun run) {
    taps_.clear();
    walk::cells(plan_, output, plane.x.strides, [&](Index offset, Index, Index) {
      taps_.push_back(reinterpret_cast<const C*>(plane.x.data + offset));
    });
    run.from_step = plan_.axes.back().stride * plane.x.strides[last_] / kItem;
    if (!taps_.empty()) return fold_(taps_.data(), static_cast<int>(taps_.size()), made, run);
    for (Index r = 0; r < run.count; ++r) std::fill_n(made + r * run.to_step, lanes_, C{});
  }

  const MaxPlan& plan_;
  const StreamKernels& stream_ = select_stream_kernels();
  int last_;
  Index lanes_;
  typename MaxRowKernels<C, P>::Fold fold_;
  std::vector<const C*> taps_;
  RowBuffer<C> row_;
};

template <class C, class P>
std::unique_ptr<PlaneEngine> engine(const MaxPlan& plan, const MaxPlane& plane, const MaxRowKernels<C, P>& kernels) {
  constexpr Index item = static_cast<Index>(sizeof(C));
  if (plane.lanes * item < 64) return nullptr;
  for (int a = 0; a < plan.ndim(); ++a)
    if (plane.x.strides[a] % item != 0 || plane.out.strides[a] % item != 0) return nullptr;
  return std::make_unique<Places<C, P>>(plan, kernels, plane.lanes);
}

}  // namespace

std::unique_ptr<PlaneEngine> make_channels_last(const MaxPlan& plan, const MaxPlane& plane) {
  if (!plane.value_only() || plan.window_cells > kMostCells) return nullptr;
  for (const Axis& axis : plan.axes)
    if (axis.adaptive) return nullptr;
  const MaxKernels& k = select_max_kernels();
  switch (plane.dtype) {
    case DType::f32: return engine(plan, plane, k.f32_index);
    case DType::f64: return engine(plan, plane, k.f64_index);
    case DType::i8: return engine(plan, plane, k.i8);
    case DType::i16: return engine(plan, plane, k.i16);
    case DType::i32: return engine(plan, plane, k.i32);
    case DType::i64: return engine(plan, plane, k.i64);
    case DType::u16: return engine(plan, plane, k.u16);
    case DType::u32: return engine(plan, plane, k.u32);
    case DType::u64: return engine(plan, plane, k.u64);
    case DType::f16:
    case DType::bf16: return nullptr;  // compared as floats
    default: return engine(plan, plane, k.u8);  // bool is a byte, 0 or 1
  }
}

}  // namespace halfulp
