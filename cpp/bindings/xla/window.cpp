#include "xla/window.hpp"

namespace halfulp::xla {

std::vector<Axis> axes_of(const Call& call, const std::string& name, const Sizes& shape) {
  const std::string_view kind = call.text("kind");
  const std::vector<Index> output_size = call.numbers("output_size");
  const int ndim = static_cast<int>(output_size.size());
  check_rank(name, shape, ndim);
  if (kind == "adaptive") return adaptive_axes(shape.last(ndim), output_size);
  if (kind == "global") return global_axes(shape.last(ndim));
  const WindowParameters parameters{
      name,
      call.numbers("kernel"),
      call.numbers("stride"),
      call.numbers("dilation"),
      call.numbers("before"),
      call.numbers("after"),
      padding_mode_from(call.text("padding")),
      call.numbers("ceil_mode").at(0) != 0};
  return window_axes(parameters, shape.last(ndim));
}

ArrayView with_rank(const ArrayView& view, int rank) { return with_unit_axes(view, rank - view.ndim()); }

}  // namespace halfulp::xla
