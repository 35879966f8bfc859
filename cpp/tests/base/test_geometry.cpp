// The axis formulas against enumeration of the cells.
#include <cstdint>

#include "check.hpp"
#include "halfulp/error.hpp"
#include "halfulp/geometry.hpp"

using namespace halfulp;

namespace {

void check_axis(const Axis& axis) {
  tests::describe("size", axis.size, "kernel", axis.kernel, "stride", axis.stride, "dilation", axis.dilation, "before",
                  axis.before, "after", axis.after, "output", axis.output);
  for (Index o = 0; o < axis.output; ++o) {
    Index first = -1, stop = 0, counted = 0;
    for (Index w = 0; w < axis.kernel; ++w) {
      const Index cell = o * axis.stride - axis.before + w * axis.dilation;
      if (cell < axis.size + axis.after) ++counted;
      if (cell < 0 || cell >= axis.size) continue;
      if (first < 0) first = w;
      stop = w + 1;
    }
    CHECK(axis.counted(o) == counted);
    if (first < 0) {
      CHECK(axis.first_real(o) == axis.stop_real(o));
    } else {
      CHECK(axis.first_real(o) == first);
      CHECK(axis.stop_real(o) == stop);
    }
  }
}

void sliding() {
  for (Index size = 0; size < 8; ++size)
    for (Index kernel = 1; kernel < 5; ++kernel)
      for (Index stride = 1; stride < 4; ++stride)
        for (Index dilation = 1; dilation < 4; ++dilation)
          for (Index before = 0; before < 4; ++before)
            for (Index after = 0; after < 4; ++after)
              for (const bool ceil : {false, true}) {
                WindowParameters p{"test", {kernel}, {stride}, {dilation}, {before}, {after}, PaddingMode::given, ceil};
                const Index sizes[] = {size};
                try {
                  check_axis(window_axes(p, sizes)[0]);
                } catch (const Error& error) {
                  CHECK(error.label == "W5");
                  CHECK(dilation * (kernel - 1) + 1 > size + before + after);
                }
              }
}

void adaptive() {
  for (Index size = 0; size < 30; ++size)
    for (Index output = 1; output < 30; ++output) {
      const Index sizes[] = {size}, outputs[] = {output};
      const Axis axis = adaptive_axes(sizes, outputs)[0];
      for (Index o = 0; o < output; ++o) {
        const Index start = o * size / output, end = ((o + 1) * size + output - 1) / output;
        CHECK(axis.start(o) == start);
        CHECK(axis.stop_real(o) == end - start);
        CHECK(end - start <= axis.kernel);
      }
    }
  const Index huge[] = {Index{1} << 61}, many[] = {(Index{1} << 60) - 1};
  const Axis axis = adaptive_axes(huge, many)[0];
  CHECK(axis.start(0) == 0);
  CHECK(axis.start(many[0] - 1) + axis.stop_real(many[0] - 1) == huge[0]);
}

void overflow() {
  WindowParameters p{"test", {Index{1} << 40}, {1}, {Index{1} << 40}, {0}, {0}, PaddingMode::given, false};
  const Index sizes[] = {5};
  bool thrown = false;
  try {
    window_axes(p, sizes);
  } catch (const Error& error) {
    thrown = error.label == "I7";
  }
  CHECK(thrown);
}

}  // namespace

int main() {
  sliding();
  adaptive();
  overflow();
  return tests::failures() == 0 ? 0 : 1;
}
