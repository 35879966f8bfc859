#include "max/row_loader.hpp"

#include "base/row_kernels.hpp"

namespace halfulp {
namespace {

void widen(DType dtype, const char* source, char* target, Index n) {
  auto* const floats = reinterpret_cast<float*>(target);
  if (dtype == DType::f16) widen_run(reinterpret_cast<const Float16*>(source), floats, n);
  else widen_run(reinterpret_cast<const BFloat16*>(source), floats, n);
}

void narrow(DType dtype, const char* source, char* target, Index n) {
  const auto* const floats = reinterpret_cast<const float*>(source);
  if (dtype == DType::f16) narrow_run(floats, reinterpret_cast<Float16*>(target), n);
  else narrow_run(floats, reinterpret_cast<BFloat16*>(target), n);
}

template <class U>
void gather_items(const char* source, Index stride, char* target, Index n) {
  for (Index i = 0; i < n; ++i)
    std::memcpy(target + i * static_cast<Index>(sizeof(U)), source + i * stride, sizeof(U));
}

}  // namespace

RowLoader::RowLoader(const RowShape& shape, const CellType& type, std::uint64_t padding)
    : shape_(shape),
      type_(type),
      kernels_(select_max_kernels().rows[static_cast<int>(type.compared)]),
      phase_pitch_(shape.pitch * shape.rows + kRowSlack) {
  set_padding(padding);
  widened_.assign(2 * padded_items(shape.cells * shape.lanes, type.item), type.item);
}

Contents RowLoader::load(const char* source, Index row_stride, Index stride, Index rows, Index cells) {
  cells_ = cells;
  const Index n = cells * shape_.lanes;
  const bool dense = stride == type_.stored * shape_.lanes;
  if (!type_.converts() && dense && row_stride % type_.item == 0)
    return deinterleave_rows(source, row_stride / type_.item, 0, rows);
  Contents worst = Contents::finite;
  for (Index r = 0; r < rows; ++r) {
    const char* row = source + r * row_stride;
    if (!dense && shape_.lanes > 1) worst = std::max(worst, load_channels(row, stride, r));
    else worst = std::max(worst, deinterleave_rows(as_run(dense ? row : gathered(row, stride), n), 0, r, 1));
  }
  return worst;
}

// Contiguous items as they are compared: the array itself if it has them.
const char* RowLoader::as_run(const char* source, Index n) {
  if (!type_.converts()) return source;
  widen(type_.storage, source, widened_.data(), n);
  return widened_.data();
}

// The cells of a row as stored, in the second half of the scratch.
const char* RowLoader::gathered(const char* source, Index stride) {
  char* const target = widened_.at(padded_items(shape_.cells * shape_.lanes, type_.item));
  switch (type_.stored) {
    case 1: gather_items<std::uint8_t>(source, stride, target, cells_); break;
    case 2: gather_items<std::uint16_t>(source, stride, target, cells_); break;
    case 4: gather_items<std::uint32_t>(source, stride, target, cells_); break;
    default: gather_items<std::uint64_t>(source, stride, target, cells_); break;
  }
  return target;
}

// Rows of compared items, `step` items apart, to the rows from `first_row` on.
Contents RowLoader::deinterleave_rows(const char* run, Index step, Index first_row, Index rows) {
  const Index phases = shape_.phases, lanes = shape_.lanes, before = shape_.before;
  const Index down = first_row * shape_.pitch * type_.item;
  const RowRun dense{rows, cells_ * lanes, step, shape_.pitch};
  if (phases == 1) return kernels_.copy(run, at(0, before) + down, dense);
  if (lanes == 1 && phases <= 3) {
    void* targets[3];
    for (Index phase = 0; phase < phases; ++phase)
      targets[phase] = at((before + phase) % phases, (before + phase) / phases) + down;
    return (phases == 2 ? kernels_.deinterleave2 : kernels_.deinterleave3)(run, targets, dense);
  }
  Contents worst = Contents::finite;
  for (Index w = 0; w < cells_; ++w) {
    char* const target = at((before + w) % phases, (before + w) / phases) + down;
    worst = std::max(worst, kernels_.copy(run + w * lanes * type_.item, target, {rows, lanes, step, shape_.pitch}));
  }
  return worst;
}

Contents RowLoader::load_channels(const char* source, Index stride, Index row) {
  Contents worst = Contents::finite;
  for (Index w = 0; w < cells_; ++w) {
    const Index position = shape_.before + w;
    char* const target = at(position % shape_.phases, position / shape_.phases) + row * shape_.pitch * type_.item;
    worst = std::max(worst, kernels_.copy(as_run(source + w * stride, shape_.lanes), target, {1, shape_.lanes, 0, 0}));
  }
  return worst;
}

void write_row(const CellType& type, const char* source, char* target, Index stride, Index positions, Index lanes) {
  const auto write_run = [&](const char* from, char* to, Index n) {
    if (type.converts()) narrow(type.storage, from, to, n);
    else std::memcpy(to, from, static_cast<std::size_t>(n * type.item));
  };
  if (stride == type.stored * lanes) return write_run(source, target, positions * lanes);
  for (Index position = 0; position < positions; ++position)
    write_run(source + position * lanes * type.item, target + position * stride, lanes);
}

}  // namespace halfulp
