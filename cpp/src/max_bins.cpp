// Hard max over adaptive bins and whole planes, values only: the rows of a bin are folded first, then its columns. That
// order is right for all values but zeros, whose sign is looked up afterwards.
#include <limits>
#include <vector>

#include "max_separable.hpp"
#include "max_walk.hpp"
#include "row_buffer.hpp"

namespace halfulp {
namespace {

constexpr Index kRowsAtOnce = 8;

template <class T, class C, class P>
class Bins final : public PlaneEngine {
 public:
  using Kernels = MaxRowKernels<C, P>;

  Bins(const MaxPlan& plan, const Kernels& kernels, Index lanes)
      : plan_(plan),
        kernels_(kernels),
        last_(plan.ndim() - 1),
        lanes_(lanes),
        length_(padded_length<C>(plan.axes.back().size * lanes)),
        loader_({plan.axes.back().size, 0, 1, lanes, length_, kRowsAtOnce}, kernels, C{}) {
    rule_ = !std::is_floating_point_v<C>         ? MaxRule::clean
            : plan.nan == NanPolicy::propagate ? MaxRule::propagate
                                               : MaxRule::absent;
    folded_.assign(length_ + kRowSlack, C{});
    values_.assign(padded_length<C>(plan.axes.back().output * lanes) + kRowSlack, C{});
  }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    plane_ = &plane;
    Index output[kMaxRank] = {};
    if (last_ == 0) {
      row(output);
      return true;
    }
    for (output[0] = begin; output[0] < end;) {
      row(output);
      int a = last_ - 1;
      for (; a > 0; --a) {
        if (++output[a] < plan_.axes[static_cast<std::size_t>(a)].output) break;
        output[a] = 0;
      }
      if (a == 0) ++output[0];
    }
    return true;
  }

 private:
  const MaxPlan::Spans& spans(int axis) const noexcept { return plan_.spans[static_cast<std::size_t>(axis)]; }
  Index begin_of(int axis, const Index* output) const noexcept {
    return spans(axis).begin[static_cast<std::size_t>(output[axis])];
  }
  Index count_of(int axis, const Index* output) const noexcept {
    return spans(axis).count[static_cast<std::size_t>(output[axis])];
  }

  // All bins of the last axis for one bin of each other.
  void row(Index* output) {
    if (!whole_plane(output)) {
      fold_rows(output);
      fold_columns();
    }
    const Index places = plan_.axes.back().output;
    settle_zeros(output, places * lanes_);
    char* target = plane_->out.data + walk::position(output, plane_->out.strides, last_);
    write_row<T, C>(values_.data(), target, plane_->out.strides[last_], places, lanes_);
  }

  // One bin over contiguous memory needs no rows.
  bool whole_plane(const Index* output) {
    if constexpr (!std::is_same_v<T, C>) return false;
    if (lanes_ != 1 || plan_.axes.back().output != 1 || last_ > 1) return false;
    const Index item = static_cast<Index>(sizeof(T)), width = plan_.axes.back().size;
    if (plane_->x.strides[last_] != item || (last_ == 1 && plane_->x.strides[0] != item * width)) return false;
    const Index first = last_ == 1 ? begin_of(0, output) : 0, rows = last_ == 1 ? count_of(0, output) : 1;
    const auto* cells = reinterpret_cast<const C*>(plane_->x.data + first * item * width);
    values_.data()[0] = kernels_.largest[static_cast<int>(rule_)](cells, rows * width);
    return true;
  }

  // Folds the rows of the bins into one.
  void fold_rows(const Index* output) {
    bool empty = true;
    Index counter[kMaxRank] = {};
    const int rows_axis = last_ - 1;
    const Index rows = last_ == 0 ? 1 : count_of(rows_axis, output);
    const Index step = last_ == 0 ? 0 : plane_->x.strides[rows_axis];
    while (true) {
      const char* source = plane_->x.data;
      for (int a = 0; a < rows_axis; ++a) source += (begin_of(a, output) + counter[a]) * plane_->x.strides[a];
      if (last_ > 0) source += begin_of(rows_axis, output) * step;
      for (Index r = 0; r < rows; r += kRowsAtOnce) {
        fold_some(source + r * step, step, std::min(kRowsAtOnce, rows - r), empty);
        empty = false;
      }
      int a = rows_axis - 1;
      for (; a >= 0; --a) {
        if (++counter[a] < count_of(a, output)) break;
        counter[a] = 0;
      }
      if (a < 0) return;
    }
  }

  void fold_some(const char* source, Index step, Index rows, bool empty) {
    loader_.load(source, step, plane_->x.strides[last_], rows);
    const C* taps[kRowsAtOnce + 1];
    int count = 0;
    if (!empty) taps[count++] = folded_.data();
    for (Index r = 0; r < rows; ++r) taps[count++] = loader_.at(0, 0) + r * loader_.pitch();
    kernels_.fold[static_cast<int>(rule_)][0](taps, count, folded_.data(), {1, length_, 0, 0});
  }

  void fold_columns() {
    const MaxPlan::Spans& s = spans(last_);
    for (Index o = 0; o < plan_.axes.back().output; ++o) {
      const auto i = static_cast<std::size_t>(o);
      const C* cells = folded_.data() + s.begin[i] * lanes_;
      if (lanes_ == 1) {
        values_.data()[o] = kernels_.largest[static_cast<int>(rule_)](cells, s.count[i]);
        continue;
      }
      taps_.clear();
      for (Index c = 0; c < s.count[i]; ++c) taps_.push_back(cells + c * lanes_);
      kernels_.fold_exact[static_cast<int>(rule_)][0](taps_.data(), static_cast<int>(taps_.size()),
                                                      values_.data() + o * lanes_, {1, lanes_, 0, 0});
    }
  }

  // Zeros of either sign are equal; the one that counts is the first, or the last.
  void settle_zeros(Index* output, Index n) {
    if constexpr (std::is_floating_point_v<C>) {
      for (Index i = 0; i < n; ++i) {
        if (values_.data()[i] != 0) continue;
        const MaxPlane one = lane_of(*plane_, i % lanes_);
        output[last_] = i / lanes_;
        values_.data()[i] = first_zero(one, output);
        output[last_] = 0;
      }
    }
  }

  C first_zero(const MaxPlane& one, const Index* output) const {
    C found{};
    bool done = false;
    const bool last = plan_.ties == Ties::last;
    walk::cells(plan_, output, one.x.strides, [&](Index offset, Index, Index) {
      if (done && !last) return;
      const C x = walk::value_of(*reinterpret_cast<const T*>(one.x.data + offset));
      if (x != 0) return;
      found = x;
      done = true;
    });
    return found;
  }

  const MaxPlan& plan_;
  const Kernels& kernels_;
  int last_;
  Index lanes_, length_;
  RowLoader<T, C, Kernels> loader_;
  MaxRule rule_ = MaxRule::clean;
  RowBuffer<C> folded_, values_;
  std::vector<const C*> taps_;
  const MaxPlane* plane_ = nullptr;
};

template <class T, class C, class P>
std::unique_ptr<PlaneEngine> bins(const MaxPlan& plan, const MaxPlane& plane, const MaxRowKernels<C, P>& kernels) {
  return std::make_unique<Bins<T, C, P>>(plan, kernels, plane.lanes);
}

}  // namespace

std::unique_ptr<PlaneEngine> make_bins(const MaxPlan& plan, const MaxPlane& plane) {
  if (!plane.value_only()) return nullptr;
  for (const Axis& axis : plan.axes)
    if (!axis.adaptive || axis.size == 0) return nullptr;
  const MaxKernels& k = select_max_kernels();
  switch (plane.dtype) {
    case DType::f16: return bins<Float16>(plan, plane, k.f32_index);
    case DType::bf16: return bins<BFloat16>(plan, plane, k.f32_index);
    case DType::f32: return bins<float>(plan, plane, k.f32_index);
    case DType::f64: return bins<double>(plan, plane, k.f64_index);
    case DType::i8: return bins<std::int8_t>(plan, plane, k.i8);
    case DType::i16: return bins<std::int16_t>(plan, plane, k.i16);
    case DType::i32: return bins<std::int32_t>(plan, plane, k.i32);
    case DType::i64: return bins<std::int64_t>(plan, plane, k.i64);
    case DType::u16: return bins<std::uint16_t>(plan, plane, k.u16);
    case DType::u32: return bins<std::uint32_t>(plan, plane, k.u32);
    case DType::u64: return bins<std::uint64_t>(plan, plane, k.u64);
    default: return bins<std::uint8_t>(plan, plane, k.u8);  // bool is a byte, 0 or 1
  }
}

}  // namespace halfulp
