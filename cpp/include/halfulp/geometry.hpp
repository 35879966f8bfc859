// Window arithmetic of the core, for any number of spatial axes. Written apart from the Python layer's: tests compare.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

enum class PaddingMode { given, valid, same, same_lower };

// "given" means the pairs of WindowParameters; the others are the modes of the records.
PaddingMode padding_mode_from(std::string_view name) noexcept;

// What a record says about its windows; sizes are one per spatial axis.
struct WindowParameters {
  std::string operator_name;
  std::vector<Index> kernel, stride, dilation, before, after;
  PaddingMode padding = PaddingMode::given;
  bool ceil_mode = false;

  int ndim() const noexcept { return static_cast<int>(kernel.size()); }
};

// The windows along one axis of an input. Window o holds the cells start(o) + w * dilation for w in [0, kernel) of a
// sliding window, or [start, end) of an adaptive bin; only the cells inside [0, size) are real.
struct Axis {
  Index size = 0;
  Index kernel = 1;  // the widest bin, if adaptive
  Index stride = 1;
  Index dilation = 1;
  Index before = 0;
  Index after = 0;
  Index output = 0;
  bool adaptive = false;
  // Of bins of `kernel` cells that follow no formula, in order.
  std::shared_ptr<const std::vector<Index>> starts = nullptr;

  Index extent() const noexcept { return dilation * (kernel - 1) + 1; }
  Index padded() const noexcept { return before + size + after; }
  // The input coordinate of offset 0 of window o; negative in the padding.
  Index start(Index o) const noexcept { return adaptive ? adaptive_start(o) : o * stride - before; }
  // Offsets [first_real(o), stop_real(o)) of window o are real cells; first == stop if there are none.
  Index first_real(Index o) const noexcept;
  Index stop_real(Index o) const noexcept;
  // How many cells of window o lie in the input or its padding, not beyond.
  Index counted(Index o) const noexcept;

 private:
  Index adaptive_start(Index o) const noexcept;
};

// The axes of a sliding window on an input with these spatial sizes; throws Error W5 or I7 if there are none.
std::vector<Axis> window_axes(const WindowParameters& parameters, std::span<const Index> sizes);

// Adaptive bins [floor(i * in / out), ceil((i + 1) * in / out)); an output size of -1 keeps the input's.
std::vector<Axis> adaptive_axes(std::span<const Index> sizes, std::span<const Index> output_sizes);

// One window over everything.
std::vector<Axis> global_axes(std::span<const Index> sizes);

// Bins of `kernel` cells that start where `starts` says, in order.
Axis bins_axis(Index size, Index kernel, std::vector<Index> starts);

// The leading axes of `shape` followed by the axes' outputs; throws Error I7 if an array of `dtype` would be too large.
Sizes output_shape(const std::string& operator_name, const Sizes& shape, std::span<const Axis> axes, DType dtype);

// Throws Error I7 if an array is larger than the machine's memory: at once, instead of after filling it.
void check_memory(const std::string& operator_name, const char* what, const Sizes& shape, DType dtype);
// The same for what a plan keeps for every output of every axis.
void check_plan_memory(const std::string& operator_name, std::span<const Axis> axes);

// Throws Error W7 if an input has fewer axes than the operator has spatial ones.
void check_rank(const std::string& operator_name, const Sizes& shape, int ndim);

// "(2, 3)" as Python writes a tuple.
std::string tuple_text(std::span<const Index> values);

}  // namespace halfulp
