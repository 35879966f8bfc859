#include "halfulp/geometry.hpp"

#include <algorithm>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#elif defined(_WIN32)
#ifndef NOMINMAX  // libstdc++ for Windows defines it too
#define NOMINMAX
#endif
#include <windows.h>
#endif

#include "halfulp/error.hpp"

namespace halfulp {
namespace {

constexpr Index kLargest = std::numeric_limits<Index>::max();

constexpr Index floor_div(Index a, Index b) noexcept { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
constexpr Index ceil_div(Index a, Index b) noexcept { return -floor_div(-a, b); }

// floor(o * in / out) and whether the division is exact; o <= out, so the result fits, but the product may not.
struct Quotient {
  Index floor;
  bool exact;
};
Quotient scaled(Index o, Index in, Index out) noexcept {
  const Index whole = in / out, rest = in % out;
  if (rest == 0) return {whole * o, true};
  if (o == 0 || rest <= kLargest / o) return {whole * o + rest * o / out, rest * o % out == 0};
  // Schoolbook doubling: floor(rest * o / out) bit by bit of o, with the running remainder below out.
  Index quotient = 0, remainder = 0;
  for (int bit = 62; bit >= 0; --bit) {
    quotient *= 2;
    const bool carry = remainder >= out - remainder;
    remainder = carry ? remainder - (out - remainder) : 2 * remainder;
    quotient += carry;
    if ((o >> bit) & 1) {
      const bool over = remainder >= out - rest;
      remainder = over ? remainder - (out - rest) : remainder + rest;
      quotient += over;
    }
  }
  return {whole * o + quotient, remainder == 0};
}

Index output_size(const Axis& axis, bool ceil_mode) noexcept {
  const Index room = axis.padded() - axis.extent();
  if (!ceil_mode) return floor_div(room, axis.stride) + 1;
  const Index count = ceil_div(room, axis.stride) + 1;
  return (count - 1) * axis.stride >= axis.size + axis.before ? count - 1 : count;
}

void set_same_padding(Axis& axis, bool lower) noexcept {
  const Index output = ceil_div(axis.size, axis.stride);
  const Index total = std::max<Index>(0, (output - 1) * axis.stride + axis.extent() - axis.size);
  axis.before = lower ? total - total / 2 : total / 2;
  axis.after = total - axis.before;
}

// a * b + c for values >= 0, or kLargest if it does not fit
Index saturated(Index a, Index b, Index c) noexcept {
  if (a != 0 && b > (kLargest - 1) / a) return kLargest;
  return c > kLargest - a * b ? kLargest : a * b + c;
}

// Every quantity that the arithmetic forms stays below this if it fits: a guard well under the limit.
bool too_large(const Axis& axis) noexcept {
  const Index limit = kLargest / 8;
  return axis.size > limit || axis.before > limit || axis.after > limit || axis.stride > limit ||
         saturated(axis.dilation, axis.kernel, 1) > limit;
}

// In bytes; without limit where it is not known.
Index ask_physical_memory() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && size > 0) return static_cast<Index>(pages) * size;
#elif defined(_WIN32)
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof(status);
  if (GlobalMemoryStatusEx(&status)) return static_cast<Index>(status.ullTotalPhys);
#endif
  return kLargest;
}

// Asked once: the question is a system call, and every call of an operator compares with the answer.
Index physical_memory() noexcept {
  static const Index bytes = ask_physical_memory();
  return bytes;
}

std::vector<Index> each(std::span<const Axis> axes, Index (Axis::*quantity)() const noexcept) {
  std::vector<Index> values;
  for (const Axis& axis : axes) values.push_back((axis.*quantity)());
  return values;
}

}  // namespace

PaddingMode padding_mode_from(std::string_view name) noexcept {
  if (name == "valid") return PaddingMode::valid;
  if (name == "same") return PaddingMode::same;
  return name == "same_lower" ? PaddingMode::same_lower : PaddingMode::given;
}

Index Axis::adaptive_start(Index o) const noexcept {
  return starts ? (*starts)[static_cast<std::size_t>(o)] : scaled(o, size, output).floor;
}

Index Axis::first_real(Index o) const noexcept {
  if (adaptive) return 0;
  const Index begin = start(o);
  return begin >= 0 ? 0 : std::min(kernel, ceil_div(-begin, dilation));
}

Index Axis::stop_real(Index o) const noexcept {
  if (starts) return kernel;
  if (adaptive) {
    const Quotient end = scaled(o + 1, size, output);
    return end.floor + (end.exact ? 0 : 1) - adaptive_start(o);
  }
  const Index begin = start(o);
  const Index stop = begin >= size ? 0 : std::min(kernel, ceil_div(size - begin, dilation));
  return std::max(stop, first_real(o));
}

Index Axis::counted(Index o) const noexcept {
  if (adaptive) return stop_real(o);
  return std::clamp<Index>(ceil_div(padded() - o * stride, dilation), 0, kernel);
}

Axis bins_axis(Index size, Index kernel, std::vector<Index> starts) {
  Axis axis;
  axis.size = size;
  axis.kernel = kernel;
  axis.output = static_cast<Index>(starts.size());
  axis.adaptive = true;
  axis.starts = std::make_shared<const std::vector<Index>>(std::move(starts));
  return axis;
}

std::vector<Axis> window_axes(const WindowParameters& parameters, std::span<const Index> sizes) {
  std::vector<Axis> axes(parameters.kernel.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = axes[i];
    axis.size = sizes[i];
    axis.kernel = parameters.kernel[i];
    axis.stride = parameters.stride[i];
    axis.dilation = parameters.dilation[i];
    if (parameters.padding == PaddingMode::given) {
      axis.before = parameters.before[i];
      axis.after = parameters.after[i];
    }
    if (too_large(axis))
      throw Error(ErrorKind::shape, parameters.operator_name, "spatial shape=" + tuple_text(sizes),
                  "the window arithmetic must fit in 64 bits", "I7");
    if (parameters.padding == PaddingMode::same || parameters.padding == PaddingMode::same_lower)
      set_same_padding(axis, parameters.padding == PaddingMode::same_lower);
  }
  const bool fits_always = parameters.padding == PaddingMode::same || parameters.padding == PaddingMode::same_lower;
  for (Axis& axis : axes) {
    if (!fits_always && axis.extent() > axis.padded())
      throw Error(ErrorKind::shape, parameters.operator_name,
                  "kernel_size=" + tuple_text(parameters.kernel) + ", dilation=" + tuple_text(parameters.dilation),
                  "the window spans " + tuple_text(each(axes, &Axis::extent)) +
                      " cells, but the padded input has only " + tuple_text(each(axes, &Axis::padded)),
                  "W5");
    axis.output = std::max<Index>(0, output_size(axis, parameters.ceil_mode));
  }
  return axes;
}

std::vector<Axis> adaptive_axes(std::span<const Index> sizes, std::span<const Index> output_sizes) {
  std::vector<Axis> axes(sizes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = axes[i];
    axis.size = sizes[i];
    axis.output = output_sizes[i] < 0 ? sizes[i] : output_sizes[i];
    axis.adaptive = true;
    // A bin's width is ceil or ceil + 1 of size / output: it can straddle one more cell when output does not divide.
    axis.kernel = axis.output == 0 ? 0 : ceil_div(axis.size, axis.output) + (axis.size % axis.output != 0 ? 1 : 0);
    axis.kernel = std::max<Index>(1, std::min(axis.kernel, axis.size));
  }
  return axes;
}

std::vector<Axis> global_axes(std::span<const Index> sizes) {
  std::vector<Axis> axes(sizes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].size = sizes[i];
    axes[i].kernel = std::max<Index>(1, sizes[i]);
    axes[i].output = 1;
    axes[i].adaptive = true;
  }
  return axes;
}

void check_rank(const std::string& operator_name, const Sizes& shape, int ndim) {
  if (shape.size() >= ndim) return;
  throw Error(ErrorKind::shape, operator_name, "input shape=" + tuple_text(shape.span()),
              "the last " + std::to_string(ndim) + " axes are spatial, but there are " + std::to_string(shape.size()),
              "W7");
}

Sizes output_shape(const std::string& operator_name, const Sizes& shape, std::span<const Axis> axes, DType dtype) {
  Sizes result = shape;
  const int leading = shape.size() - static_cast<int>(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) result[leading + static_cast<int>(i)] = axes[i].output;
  Index count = 0;
  if (!checked_product(result.span(), count) || count > kLargest / static_cast<Index>(item_size(dtype)))
    throw Error(ErrorKind::shape, operator_name, "output shape=" + tuple_text(result.span()),
                "the output's size must fit in memory addresses", "I7");
  return result;
}

void check_memory(const std::string& operator_name, const char* what, const Sizes& shape, DType dtype) {
  Index count = 0;
  if (checked_product(shape.span(), count) && count <= physical_memory() / static_cast<Index>(item_size(dtype))) return;
  throw Error(ErrorKind::shape, operator_name, std::string(what) + " shape=" + tuple_text(shape.span()),
              "the array must fit in this machine's memory", "I7");
}

void check_plan_memory(const std::string& operator_name, std::span<const Axis> axes) {
  constexpr Index bytes_per_output = 32;
  std::vector<Index> outputs;
  for (const Axis& axis : axes) outputs.push_back(axis.output);
  for (const Index output : outputs)
    if (output > physical_memory() / bytes_per_output)
      throw Error(ErrorKind::shape, operator_name, "output shape=(…, " + tuple_text(outputs).substr(1),
                  "the windows of an axis must fit in this machine's memory", "I7");
}

std::string tuple_text(std::span<const Index> values) {
  std::string text = "(";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + (values.size() == 1 ? ",)" : ")");
}

}  // namespace halfulp
