// Hard max one axis at a time, the last one first: that keeps the first winner in row-major order, zeros of either sign
// included. What travels with a value is its tangent, its index in the plane, or its code in the window.
#include "max_separable.hpp"

#include <cstring>
#include <limits>
#include <numeric>

#include "max_horizontal.hpp"
#include "max_vertical.hpp"
#include "max_walk.hpp"

namespace halfulp {
namespace {

enum class Travels { nothing, tangent, index, code };

// An integer that travels is linear in the coordinates of the cell, so that no division is needed to read it: the flat
// index, or the cell's code in the window times the common multiple of the dilations, up to the window's own place.
struct Coordinates {
  std::vector<Index> weights;  // one per axis
  Index multiple = 1;
  Index largest = 0;
};

Coordinates coordinates(const MaxPlan& plan, Travels travels) {
  Coordinates c;
  c.weights.resize(plan.axes.size());
  if (travels == Travels::code)
    for (const Axis& axis : plan.axes) c.multiple = std::lcm(c.multiple, std::min<Index>(axis.dilation, 1 << 20));
  Index step = 1;
  for (int a = plan.ndim() - 1; a >= 0; --a) {
    const Axis& axis = plan.axes[static_cast<std::size_t>(a)];
    c.weights[static_cast<std::size_t>(a)] = travels == Travels::code ? step * (c.multiple / axis.dilation) : step;
    c.largest += c.weights[static_cast<std::size_t>(a)] * (axis.size + axis.before + 1);
    step *= travels == Travels::code ? axis.kernel : axis.size;
  }
  return c;
}

template <class T, class C, class P>
class Separable final : public PlaneEngine {
 public:
  using Kernels = MaxRowKernels<C, P>;
  using Loader = RowLoader<T, C, Kernels>;
  using PairLoader = RowLoader<std::conditional_t<std::is_floating_point_v<P>, T, P>, P, Kernels>;

  Separable(const MaxPlan& plan, const Kernels& kernels, Travels travels, Index lanes)
      : plan_(plan),
        kernels_(kernels),
        travels_(travels),
        last_(plan.ndim() - 1),
        lanes_(lanes),
        windows_(plan.axes.back(), lanes),
        loader_(windows_.shape<C>(), kernels, C{}),
        coordinates_(coordinates(plan, travels)) {
    const Axis& axis = plan.axes.back();
    row_length_ = padded_length<C>(axis.output * lanes);
    row_padding_ = axis.before > 0 || (axis.output - 1) * axis.stride + axis.extent() > axis.before + axis.size;
    prepare_levels();
    prepare_row();
  }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    for (Index lane = 0; lane < plane.lanes;) {
      const MaxPlane part = lane_of(plane, lane);
      if (!run_lanes(part, begin, end)) return false;
      if (lane + lanes_ == plane.lanes) break;
      lane = std::min(lane + lanes_, plane.lanes - lanes_);  // the last step may overlap the one before
    }
    return true;
  }

 private:
  bool paired() const noexcept { return travels_ != Travels::nothing; }

  void prepare_levels() {
    lengths_.assign(static_cast<std::size_t>(last_) + 1, row_length_);
    for (int a = last_ - 1; a >= 0; --a)
      lengths_[static_cast<std::size_t>(a)] =
          lengths_[static_cast<std::size_t>(a) + 1] * (a + 1 < last_ ? plan_.axes[static_cast<std::size_t>(a) + 1].output : 1);
    for (int a = 0; a < last_; ++a)
      levels_.emplace_back(plan_.axes[static_cast<std::size_t>(a)], plan_.spans[static_cast<std::size_t>(a)],
                           lengths_[static_cast<std::size_t>(a)], paired());
    result_ = Slices<C, P>(1, last_ == 0 ? row_length_ : lengths_[0], paired());
  }

  void prepare_row() {
    windows_.taps(loader_, taps_);
    if (windows_.doubling())
      scratch_ = Slices<C, P>(2, windows_.shape<C>().pitch, paired());
    if (!paired()) return;
    pair_loader_ = std::make_unique<PairLoader>(windows_.shape<P>(), pair_kernels(), P{});
    windows_.taps(*pair_loader_, pair_taps_);
    if (travels_ == Travels::tangent) return;
    const Axis& axis = plan_.axes.back();
    const Index ways = windows_.doubling() ? 1 : axis.stride;
    for (Index w = 0; w < axis.size; ++w)
      for (Index lane = 0; lane < lanes_; ++lane)
        pair_loader_->at((w + axis.before) % ways, (w + axis.before) / ways)[lane] =
            static_cast<P>(w * coordinates_.weights.back());
    starts_.assign(static_cast<std::size_t>(row_length_), 0);
    for (Index o = 0; o < axis.output; ++o)
      for (Index lane = 0; lane < lanes_; ++lane)
        starts_[static_cast<std::size_t>(o * lanes_ + lane)] =
            static_cast<P>(axis.start(o) * coordinates_.weights.back());
  }

  // The loader of the tangent uses the value kernels of its own type, which is C.
  const Kernels& pair_kernels() const noexcept { return kernels_; }

  void set_rule(MaxRule rule) {
    rule_ = rule;
    const C lowest = std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
    const C padding = rule == MaxRule::absent ? std::numeric_limits<C>::quiet_NaN() : lowest;
    if (ready_ && padding_rule_ == rule) return;
    loader_.set_padding(padding);
    padding_rule_ = rule;
    ready_ = true;
  }

  bool run_lanes(const MaxPlane& plane, Index begin, Index end) {
    plane_ = &plane;
    // With something that travels, padding must lose against every cell, -infinity included: it is made absent.
    set_rule(paired() && row_padding_ && std::is_floating_point_v<C> ? MaxRule::absent : MaxRule::clean);
    if (attempt(begin, end)) return true;
    if (paired()) return false;
    set_rule(plan_.nan == NanPolicy::ignore ? MaxRule::absent : MaxRule::propagate);
    attempt(begin, end);
    return true;
  }

  // False as soon as a NaN shows up that the rule does not cover.
  bool attempt(Index begin, Index end) {
    nan_ = false;
    const bool stop_at_nan = paired() || rule_ == MaxRule::clean;
    for (auto& level : levels_) level.restart();
    Index output[kMaxRank] = {};
    for (Index o = begin; o < end; ++o) {
      output[0] = o;
      if (last_ == 0) {
        row(plane_->x.data, plane_->tangent.data, 0, result_.value(0), result_.pair(0));
        emit_row(output, result_.value(0), result_.pair(0), true);
        return !(nan_ && stop_at_nan);
      }
      top(output);
      if (nan_ && stop_at_nan) return false;
    }
    return true;
  }

  // One output of the first axis: straight into the output array where that is possible.
  void top(Index* output) {
    VerticalAxis<C, P>& level = levels_[0];
    const int count = gather(0, output[0], plane_->x.data, plane_->tangent.data, 0);
    if (count > 0 && last_ == 1 && !paired() && !plan_.any_empty && std::is_same_v<T, C> &&
        plane_->out.strides[1] == static_cast<Index>(sizeof(T)) * lanes_) {
      char* target = plane_->out.data + output[0] * plane_->out.strides[0];
      kernels_.fold_exact[static_cast<int>(rule_)][last()](level.values.data(), count, reinterpret_cast<C*>(target),
                                                          plan_.axes.back().output * lanes_);
      return;
    }
    if (count > 0) fold(level.values.data(), level.pairs.data(), count, result_.value(0), result_.pair(0), lengths_[0]);
    emit_slice(output, 1, result_.value(0), result_.pair(0), count > 0);
  }

  // The taps of output o along axis a.
  int gather(int a, Index o, const char* x, const char* tangent, Index base) {
    const auto axis = static_cast<std::size_t>(a);
    return levels_[axis].taps(
        o,
        [&](Index r, C* value, P* pair) {
          const char* t = tangent == nullptr ? nullptr : tangent + r * plane_->tangent.strides[a];
          slice(a + 1, x + r * plane_->x.strides[a], t, base + r * coordinates_.weights[axis], value, pair);
        },
        [&](const C* const* values, const P* const* pairs, int count, C* value, P* pair) {
          fold(values, pairs, count, value, pair, lengths_[axis]);
        });
  }

  // All outputs of the axes from a on.
  void slice(int a, const char* x, const char* tangent, Index base, C* value, P* pair) {
    if (a == last_) return row(x, tangent, base, value, pair);
    const auto axis = static_cast<std::size_t>(a);
    levels_[axis].restart();
    const Index length = lengths_[axis];
    for (Index o = 0; o < plan_.axes[axis].output; ++o) {
      const int count = gather(a, o, x, tangent, base);
      P* const target = pair == nullptr ? nullptr : pair + o * length;
      if (count > 0) fold(levels_[axis].values.data(), levels_[axis].pairs.data(), count, value + o * length, target, length);
    }
  }

  void row(const char* x, const char* tangent, Index base, C* value, P* pair) {
    nan_ = loader_.load(x, plane_->x.strides[last_]) || nan_;
    if constexpr (std::is_floating_point_v<P>)
      if (paired()) pair_loader_->load(tangent, plane_->tangent.strides[last_]);
    const P add = std::is_floating_point_v<P> ? P{} : static_cast<P>(base);
    if (!windows_.doubling()) {
      fold(taps_.data(), pair_taps_.data(), static_cast<int>(taps_.size()), value, pair, row_length_, add);
      return;
    }
    const int found = run_doubling(windows_, [&](int from, int to, Index distance, Index n) {
      const C* v = from == 0 ? taps_[0] : scratch_.value(from - 1);
      const C* two[] = {v, v + distance};
      const P* p = !paired() ? nullptr : from == 0 ? pair_taps_[0] : scratch_.pair(from - 1);
      const P* two_pairs[] = {p, p == nullptr ? nullptr : p + distance};
      fold(two, two_pairs, 2, scratch_.value(to - 1), scratch_.pair(to - 1), padded_length<C>(n));
    });
    const Axis& axis = plan_.axes.back();
    pick(scratch_.value(found - 1), value, axis.output, axis.stride, lanes_);
    if (!paired()) return;
    pick(scratch_.pair(found - 1), pair, axis.output, axis.stride, lanes_);
    if constexpr (!std::is_floating_point_v<P>)
      for (Index i = 0; i < row_length_; ++i) pair[i] = static_cast<P>(pair[i] + add);
  }

  void fold(const C* const* values, const P* const* pairs, int count, C* value, P* pair, Index n, P add = P{}) {
    if (!paired()) return kernels_.fold[static_cast<int>(rule_)][last()](values, count, value, n);
    kernels_.fold_pair[rule_ == MaxRule::absent ? 1 : 0][last()](values, pairs, count, value, pair, add, n);
  }

  int last() const noexcept { return plan_.ties == Ties::last ? 1 : 0; }

  // Writes the rows of one slice; `real` says whether the axes before a have cells.
  void emit_slice(Index* output, int a, const C* value, const P* pair, bool real) {
    if (a == last_) return emit_row(output, value, pair, real);
    const auto axis = static_cast<std::size_t>(a);
    for (output[a] = 0; output[a] < plan_.axes[axis].output; ++output[a]) {
      const Index at = output[a] * lengths_[axis];
      const bool cells = plan_.spans[axis].count[static_cast<std::size_t>(output[a])] > 0;
      emit_slice(output, a + 1, value + at, pair == nullptr ? nullptr : pair + at, real && cells);
    }
  }

  void emit_row(const Index* output, const C* value, const P* pair, bool real) {
    const Index places = plan_.axes.back().output;
    const auto target = [&](const Plane& plane) { return plane.data + walk::position(output, plane.strides, last_); };
    write_row<T, C>(value, target(plane_->out), plane_->out.strides[last_], places, lanes_);
    if (travels_ == Travels::tangent) {
      if constexpr (std::is_floating_point_v<P>)
        write_row<T, C>(pair, target(plane_->out_tangent), plane_->out_tangent.strides[last_], places, lanes_);
    } else if (travels_ == Travels::index) {
      write_integers<std::int64_t>(target(plane_->indices), plane_->indices.strides[last_], pair, 0, false);
    } else if (travels_ == Travels::code) {
      Index start = 0;
      for (int a = 0; a < last_; ++a)
        start += plan_.axes[static_cast<std::size_t>(a)].start(output[a]) * coordinates_.weights[static_cast<std::size_t>(a)];
      write_codes(target(plane_->winners), plane_->winners.strides[last_], pair, start);
    }
    if (plan_.any_empty) clear_empty(output, real);
  }

  void write_codes(char* target, Index stride, const P* pair, Index start) {
    switch (plane_->winner_bytes) {
      case 1: return write_integers<std::uint8_t>(target, stride, pair, start, true);
      case 2: return write_integers<std::uint16_t>(target, stride, pair, start, true);
      case 4: return write_integers<std::uint32_t>(target, stride, pair, start, true);
      default: return write_integers<std::uint64_t>(target, stride, pair, start, true);
    }
  }

  template <class I>
  void write_integers(char* target, Index stride, const P* pair, Index start, bool relative) {
    if constexpr (!std::is_floating_point_v<P>) {
      const Index places = plan_.axes.back().output;
      integers_.resize(static_cast<std::size_t>(row_length_ * static_cast<Index>(sizeof(I))));
      const bool direct = stride == static_cast<Index>(sizeof(I)) * lanes_;
      I* out = direct ? reinterpret_cast<I*>(target) : reinterpret_cast<I*>(integers_.data());
      const Index n = places * lanes_;
      if (!relative) {
        for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(pair[i]);
      } else {
        const P* starts = starts_.data();
        const P first = static_cast<P>(start);
        for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(pair[i] - starts[i] - first);
        if (coordinates_.multiple > 1) divide(out, pair, first, n);
      }
      if (!direct) write_row<I, I>(out, target, stride, places, lanes_);
    }
  }

  template <class I>
  void divide(I* out, const P* pair, P first, Index n) {
    for (Index i = 0; i < n; ++i) {
      const Index scaled = static_cast<Index>(pair[i]) - starts_[static_cast<std::size_t>(i)] - first;
      out[i] = static_cast<I>(scaled / coordinates_.multiple);
    }
  }

  // Windows without a real cell: value +0, tangent +0, index -1, code 0.
  void clear_empty(const Index* output, bool real) {
    Index position[kMaxRank];
    std::copy_n(output, last_, position);
    const auto& counts = plan_.spans.back().count;
    for (Index o = 0; o < plan_.axes.back().output; ++o) {
      if (real && counts[static_cast<std::size_t>(o)] > 0) continue;
      position[last_] = o;
      const auto at = [&](const Plane& plane) { return plane.data + walk::position(position, plane.strides, last_ + 1); };
      const auto bytes = static_cast<std::size_t>(lanes_) * sizeof(T);
      std::memset(at(plane_->out), 0, bytes);
      if (travels_ == Travels::tangent) std::memset(at(plane_->out_tangent), 0, bytes);
      if (travels_ == Travels::index) std::memset(at(plane_->indices), 0xff, static_cast<std::size_t>(lanes_) * 8);
      if (travels_ == Travels::code)
        std::memset(at(plane_->winners), 0, static_cast<std::size_t>(lanes_ * plane_->winner_bytes));
    }
  }

  const MaxPlan& plan_;
  const Kernels& kernels_;
  Travels travels_;
  int last_;
  Index lanes_;
  RowWindows windows_;
  Loader loader_;
  std::unique_ptr<PairLoader> pair_loader_;
  Coordinates coordinates_;
  Index row_length_ = 0;
  bool row_padding_ = false;
  std::vector<Index> lengths_;  // items of a slice along each outer axis
  std::vector<VerticalAxis<C, P>> levels_;
  Slices<C, P> result_, scratch_;
  std::vector<const C*> taps_;
  std::vector<const P*> pair_taps_;
  std::vector<P> starts_;
  std::vector<std::byte> integers_;
  MaxRule rule_ = MaxRule::clean, padding_rule_ = MaxRule::clean;
  bool ready_ = false, nan_ = false;
  const MaxPlane* plane_ = nullptr;
};

// Lanes are taken in runs whose rows stay in the first-level cache.
Index lanes_at_once(const MaxPlan& plan, const MaxPlane& plane, Index item) {
  const Index fitting = (Index{16} << 10) / (item * std::max<Index>(1, plan.axes.back().size));
  const Index whole = 64 / item;
  return std::min(plane.lanes, std::max<Index>(whole, fitting / whole * whole));
}

bool applies(const MaxPlan& plan, const MaxPlane& plane) {
  if (plan.many_winners() && !plane.value_only()) return false;
  for (const Axis& axis : plan.axes) {
    // Padding and windows far larger than the input would only fill memory.
    const Index limit = 4 * axis.size + 4096;
    if (axis.adaptive || axis.size == 0 || axis.padded() > limit || axis.extent() > limit) return false;
  }
  return true;
}

Travels travels_of(const MaxPlane& plane) {
  if (plane.tangent) return Travels::tangent;
  if (plane.indices) return Travels::index;
  return plane.winners ? Travels::code : Travels::nothing;
}

template <class T, class C, class P>
std::unique_ptr<PlaneEngine> engine(const MaxPlan& plan, const MaxPlane& plane, const MaxRowKernels<C, P>& kernels) {
  const Travels travels = travels_of(plane);
  const bool integer = travels == Travels::index || travels == Travels::code;
  if (integer && coordinates(plan, travels).largest >= std::numeric_limits<int>::max() / 2) return nullptr;
  if (!std::is_floating_point_v<C> && travels != Travels::nothing) return nullptr;
  return std::make_unique<Separable<T, C, P>>(plan, kernels, travels,
                                              lanes_at_once(plan, plane, static_cast<Index>(sizeof(C))));
}

template <class T>
std::unique_ptr<PlaneEngine> float_engine(const MaxPlan& plan, const MaxPlane& plane) {
  const MaxKernels& kernels = select_max_kernels();
  if constexpr (std::is_same_v<T, double>) {
    if (plane.tangent) return engine<T, double, double>(plan, plane, kernels.f64_tangent);
    return engine<T, double, std::int64_t>(plan, plane, kernels.f64_index);
  } else {
    if (plane.tangent) return engine<T, float, float>(plan, plane, kernels.f32_tangent);
    return engine<T, float, std::int32_t>(plan, plane, kernels.f32_index);
  }
}

}  // namespace

std::unique_ptr<PlaneEngine> make_separable(const MaxPlan& plan, const MaxPlane& plane) {
  if (!applies(plan, plane)) return nullptr;
  const MaxKernels& k = select_max_kernels();
  switch (plane.dtype) {
    case DType::f16: return float_engine<Float16>(plan, plane);
    case DType::bf16: return float_engine<BFloat16>(plan, plane);
    case DType::f32: return float_engine<float>(plan, plane);
    case DType::f64: return float_engine<double>(plan, plane);
    case DType::i8: return engine<std::int8_t, std::int8_t>(plan, plane, k.i8);
    case DType::i16: return engine<std::int16_t, std::int16_t>(plan, plane, k.i16);
    case DType::i32: return engine<std::int32_t, std::int32_t>(plan, plane, k.i32);
    case DType::i64: return engine<std::int64_t, std::int64_t>(plan, plane, k.i64);
    case DType::u16: return engine<std::uint16_t, std::uint16_t>(plan, plane, k.u16);
    case DType::u32: return engine<std::uint32_t, std::uint32_t>(plan, plane, k.u32);
    case DType::u64: return engine<std::uint64_t, std::uint64_t>(plan, plane, k.u64);
    default: return engine<std::uint8_t, std::uint8_t>(plan, plane, k.u8);  // bool is a byte, 0 or 1
  }
}

}  // namespace halfulp
