#include "max/emit.hpp"

#include <cstring>

#include "max/walk.hpp"

namespace halfulp {
namespace {

std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

}  // namespace

RowEmitter::RowEmitter(const MaxPlan& plan, const CellType& type, const Coordinates& coordinates, Payload payload,
                       Index lanes, Index row_length)
    : plan_(plan),
      type_(type),
      coordinates_(coordinates),
      payload_(payload),
      lanes_(lanes),
      last_(plan.ndim() - 1),
      row_length_(row_length) {
  if (payload != Payload::code || coordinates.relative) return;
  const Axis& axis = plan.axes.back();
  starts_.assign(at(row_length), 0);
  for (Index o = 0; o < axis.output; ++o)
    for (Index lane = 0; lane < lanes; ++lane)
      starts_[at(o * lanes + lane)] = axis.start(o) * coordinates.weights.back();
}

void RowEmitter::slice(Index* output, int a, const char* value, const char* pair, bool real,
                       const std::vector<Index>& lengths) {
  if (a == last_) return row(output, value, pair, real);
  for (output[a] = 0; output[a] < plan_.axes[at(a)].output; ++output[a]) {
    const Index offset = output[a] * lengths[at(a)] * type_.item;
    const bool cells = plan_.spans[at(a)].count[at(output[a])] > 0;
    slice(output, a + 1, value + offset, pair == nullptr ? nullptr : pair + offset, real && cells, lengths);
  }
}

void RowEmitter::row(const Index* output, const char* value, const char* pair, bool real) {
  const auto write = [&](const char* items, const Plane& plane) {
    write_row(type_, items, plane.data + walk::position(output, plane.strides, last_), plane.strides[last_],
              plan_.axes.back().output, lanes_);
  };
  write(value, plane_->out);
  if (payload_ == Payload::tangent) {
    write(pair, plane_->out_tangent);
  } else if (payload_ != Payload::none) {
    if (type_.item == 8) write_payload(output, reinterpret_cast<const std::int64_t*>(pair));
    else write_payload(output, reinterpret_cast<const std::int32_t*>(pair));
  }
  if (plan_.any_empty) clear_empty(output, real);
}

template <class P>
void RowEmitter::write_payload(const Index* output, const P* pair) {
  const Plane& plane = payload_ == Payload::index ? plane_->indices : plane_->winners;
  char* const target = plane.data + walk::position(output, plane.strides, last_);
  const Index stride = plane.strides[last_];
  if (payload_ == Payload::index) return write_integers<std::int64_t>(target, stride, pair, 0, false);
  Index start = 0;
  for (int a = 0; a < last_; ++a) start += plan_.axes[at(a)].start(output[a]) * coordinates_.weights[at(a)];
  const bool placed = !coordinates_.relative;
  switch (plane_->winner_bytes) {
    case 1: return write_integers<std::uint8_t>(target, stride, pair, start, placed);
    case 2: return write_integers<std::uint16_t>(target, stride, pair, start, placed);
    case 4: return write_integers<std::uint32_t>(target, stride, pair, start, placed);
    default: return write_integers<std::uint64_t>(target, stride, pair, start, placed);
  }
}

template <class I, class P>
void RowEmitter::write_integers(char* target, Index stride, const P* pair, Index start, bool placed) {
  const Index item = static_cast<Index>(sizeof(I)), positions = plan_.axes.back().output, n = positions * lanes_;
  integers_.resize(at(row_length_ * item));
  const bool direct = stride == item * lanes_;
  I* const out = reinterpret_cast<I*>(direct ? target : reinterpret_cast<char*>(integers_.data()));
  if (payload_ == Payload::index && plane_->first_index != 0) {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(plane_->first_index + pair[i]);
  } else if (!placed) {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(pair[i]);
  } else if (coordinates_.multiple == 1) {
    const std::int64_t* const starts = starts_.data();
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(pair[i] - starts[i] - start);
  } else {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>((pair[i] - starts_[at(i)] - start) / coordinates_.multiple);
  }
  for (Index place = 0; !direct && place < positions; ++place)
    std::memcpy(target + place * stride, out + place * lanes_, at(lanes_ * item));
}

// Windows without a real cell: value +0, tangent +0, index -1, code 0.
void RowEmitter::clear_empty(const Index* output, bool real) {
  Index position[kMaxRank];
  std::copy_n(output, last_, position);
  const auto& counts = plan_.spans.back().count;
  for (Index o = 0; o < plan_.axes.back().output; ++o) {
    if (real && counts[at(o)] > 0) continue;
    position[last_] = o;
    const auto place = [&](const Plane& plane) {
      return plane.data + walk::position(position, plane.strides, last_ + 1);
    };
    const auto bytes = at(lanes_ * type_.stored);
    std::memset(place(plane_->out), 0, bytes);
    if (payload_ == Payload::tangent) std::memset(place(plane_->out_tangent), 0, bytes);
    if (payload_ == Payload::index) std::memset(place(plane_->indices), 0xff, at(lanes_) * 8);
    if (payload_ == Payload::code) std::memset(place(plane_->winners), 0, at(lanes_ * plane_->winner_bytes));
  }
}

}  // namespace halfulp
