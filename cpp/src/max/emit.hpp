// The way of finished rows into the arrays of the caller: values and their payloads.
#pragma once

#include <cstring>
#include <vector>

#include "max/row_band.hpp"
#include "max/walk.hpp"

namespace halfulp {

template <class T, class C, class P>
class RowEmitter {
 public:
  RowEmitter(const MaxPlan& plan, const Coordinates& coordinates, Payload payload, Index lanes, Index row_length)
      : plan_(plan),
        coordinates_(coordinates),
        payload_(payload),
        lanes_(lanes),
        last_(plan.ndim() - 1),
        row_length_(row_length) {
    if (payload != Payload::code || coordinates.relative) return;
    const Axis& axis = plan.axes.back();
    starts_.assign(static_cast<std::size_t>(row_length), 0);
    for (Index o = 0; o < axis.output; ++o)
      for (Index lane = 0; lane < lanes; ++lane)
        starts_[static_cast<std::size_t>(o * lanes + lane)] =
            static_cast<P>(axis.start(o) * coordinates.weights.back());
  }

  void set_plane(const MaxPlane& plane) noexcept { plane_ = &plane; }

  // Writes the rows of one slice; `real` says whether the axes before a have cells.
  void slice(Index* output, int a, const C* value, const P* pair, bool real, const std::vector<Index>& lengths) {
    if (a == last_) return row(output, value, pair, real);
    const auto axis = static_cast<std::size_t>(a);
    for (output[a] = 0; output[a] < plan_.axes[axis].output; ++output[a]) {
      const Index at = output[a] * lengths[axis];
      const bool cells = plan_.spans[axis].count[static_cast<std::size_t>(output[a])] > 0;
      slice(output, a + 1, value + at, pair == nullptr ? nullptr : pair + at, real && cells, lengths);
    }
  }

  void row(const Index* output, const C* value, const P* pair, bool real) {
    const Index places = plan_.axes.back().output;
    const auto target = [&](const Plane& plane) { return plane.data + walk::position(output, plane.strides, last_); };
    write_row<T, C>(value, target(plane_->out), plane_->out.strides[last_], places, lanes_);
    if (payload_ == Payload::tangent) {
      if constexpr (std::is_floating_point_v<P>)
        write_row<T, C>(pair, target(plane_->out_tangent), plane_->out_tangent.strides[last_], places, lanes_);
    } else if (payload_ == Payload::index) {
      write_integers<std::int64_t>(target(plane_->indices), plane_->indices.strides[last_], pair, 0, false);
    } else if (payload_ == Payload::code) {
      Index start = 0;
      for (int a = 0; a < last_; ++a)
        start += plan_.axes[static_cast<std::size_t>(a)].start(output[a]) *
                 coordinates_.weights[static_cast<std::size_t>(a)];
      write_codes(target(plane_->winners), plane_->winners.strides[last_], pair, start);
    }
    if (plan_.any_empty) clear_empty(output, real);
  }


 private:
  void write_codes(char* target, Index stride, const P* pair, Index start) {
    switch (plane_->winner_bytes) {
      case 1: return write_integers<std::uint8_t>(target, stride, pair, start, !coordinates_.relative);
      case 2: return write_integers<std::uint16_t>(target, stride, pair, start, !coordinates_.relative);
      case 4: return write_integers<std::uint32_t>(target, stride, pair, start, !coordinates_.relative);
      default: return write_integers<std::uint64_t>(target, stride, pair, start, !coordinates_.relative);
    }
  }

  template <class I>
  void write_integers(char* target, Index stride, const P* pair, Index start, bool placed) {
    if constexpr (!std::is_floating_point_v<P>) {
      const Index places = plan_.axes.back().output;
      integers_.resize(static_cast<std::size_t>(row_length_ * static_cast<Index>(sizeof(I))));
      const bool direct = stride == static_cast<Index>(sizeof(I)) * lanes_;
      I* out = direct ? reinterpret_cast<I*>(target) : reinterpret_cast<I*>(integers_.data());
      const Index n = places * lanes_;
      if (payload_ == Payload::index && plane_->first_index != 0) {
        for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(plane_->first_index + pair[i]);
      } else if (!placed) {
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
      const auto at = [&](const Plane& plane) {
        return plane.data + walk::position(position, plane.strides, last_ + 1);
      };
      const auto bytes = static_cast<std::size_t>(lanes_) * sizeof(T);
      std::memset(at(plane_->out), 0, bytes);
      if (payload_ == Payload::tangent) std::memset(at(plane_->out_tangent), 0, bytes);
      if (payload_ == Payload::index) std::memset(at(plane_->indices), 0xff, static_cast<std::size_t>(lanes_) * 8);
      if (payload_ == Payload::code)
        std::memset(at(plane_->winners), 0, static_cast<std::size_t>(lanes_ * plane_->winner_bytes));
    }
  }

  const MaxPlan& plan_;
  const Coordinates& coordinates_;
  Payload payload_;
  Index lanes_;
  int last_;
  Index row_length_;
  std::vector<P> starts_;
  std::vector<std::byte> integers_;
  const MaxPlane* plane_ = nullptr;
};

}  // namespace halfulp
