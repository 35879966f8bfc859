#include "halfulp/given_windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exact/round.hpp"

namespace halfulp {
namespace {

template <class T>
bool any_nan(const T* x, Index n) {
  int found = 0;
  for (Index i = 0; i < n; ++i) found |= x[i] == x[i] ? 0 : 1;
  return found != 0;
}

enum class Wanted { values, tangents, winners };

// One row of outputs. Rows and columns of the window are known if they are not 0.
template <class T, Wanted What, bool Last, int Rows, int Columns>
void row_of(const GivenWindows& w, const T* x, const T* t, Index row, T* out, T* tangents, std::uint8_t* winners) {
  const Index rows = Rows > 0 ? Rows : w.kernel[0], columns = Columns > 0 ? Columns : w.kernel[1];
  const Index first = w.starts[0][row] * w.size[1];
  for (Index o = 0; o < w.outputs[1]; ++o) {
    const T* const window = x + first + w.starts[1][o];
    T best = window[0];
    Index at = 0, next = 0;  // the winner's place, or its offset in the window
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < columns; ++c, ++next) {
        const T cell = window[r * w.size[1] + c];
        const bool wins = Last ? cell >= best : cell > best;
        best = wins ? cell : best;
        if constexpr (What != Wanted::values) {  // by a mask: a branch would be taken at random
          const Index here = What == Wanted::winners ? next : r * w.size[1] + c;
          at ^= (at ^ here) & -static_cast<Index>(wins);
        }
      }
    out[o] = best;
    if constexpr (What == Wanted::tangents) tangents[o] = t[window - x + at];
    if constexpr (What == Wanted::winners) winners[o] = static_cast<std::uint8_t>(at);
  }
}

template <class T, Wanted What, bool Last>
void rows_of(const GivenWindows& w, const T* x, const T* t, T* out, T* tangents, std::uint8_t* winners) {
  const bool two = w.kernel[0] == 2 && w.kernel[1] == 2, three = w.kernel[0] == 3 && w.kernel[1] == 3;
  const auto row = two     ? row_of<T, What, Last, 2, 2>
                   : three ? row_of<T, What, Last, 3, 3>
                           : row_of<T, What, Last, 0, 0>;
  for (Index r = 0; r < w.outputs[0]; ++r) {
    const Index from = r * w.outputs[1];
    row(w, x, t, r, out + from, What == Wanted::tangents ? tangents + from : nullptr,
        What == Wanted::winners ? winners + from : nullptr);
  }
}

template <class T, bool Last>
bool maxima(const GivenWindows& w, const T* x, const T* t, T* out, T* tangents, std::uint8_t* winners) {
  if (any_nan(x, w.size[0] * w.size[1])) return false;
  const auto rows = tangents != nullptr  ? rows_of<T, Wanted::tangents, Last>
                    : winners != nullptr ? rows_of<T, Wanted::winners, Last>
                                         : rows_of<T, Wanted::values, Last>;
  rows(w, x, t, out, tangents, winners);
  return true;
}

template <class T>
bool pulled(const GivenWindows& w, const std::uint8_t* winners, const T* g, T* dx, std::vector<double>& sums) {
  const Index cells = w.size[0] * w.size[1], n = w.outputs[0] * w.outputs[1];
  int refused = 0;
  for (Index i = 0; i < n; ++i) refused |= g[i] != 0 && std::abs(g[i]) <= std::numeric_limits<T>::max() ? 0 : 1;
  if (refused != 0) return false;
  sums.assign(static_cast<std::size_t>(cells), 0.0);
  // The winner's place from the window's first cell.
  Index place[256];
  for (Index code = 0; code < w.kernel[0] * w.kernel[1]; ++code)
    place[code] = code / w.kernel[1] * w.size[1] + code % w.kernel[1];
  double lost = 0;
  for (Index r = 0; r < w.outputs[0]; ++r) {
    double* const row = sums.data() + w.starts[0][r] * w.size[1];
    for (Index o = 0; o < w.outputs[1]; ++o) {
      const Index i = r * w.outputs[1] + o;
      double& target = row[w.starts[1][o] + place[winners[i]]];
      const TwoDoubles sum = two_sum(target, static_cast<double>(g[i]));
      target = sum.high;
      lost += std::abs(sum.low);
    }
  }
  if (lost != 0) return false;
  for (Index i = 0; i < cells; ++i) dx[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
  return true;
}

template <class F>
bool with_type(DType dtype, const F& f) {
  return dtype == DType::f32 ? f(float{}) : f(double{});
}

}  // namespace

bool given_windows_apply(const GivenWindows& windows, DType dtype) {
  return (dtype == DType::f32 || dtype == DType::f64) && windows.kernel[0] * windows.kernel[1] <= 256 &&
         windows.kernel[0] > 0 && windows.kernel[1] > 0;
}

bool given_maxima(const GivenWindows& windows, DType dtype, const char* x, const char* t, char* out, char* tangents,
                  std::uint8_t* winners) {
  return with_type(dtype, [&]<class T>(T) {
    const auto run = windows.last ? maxima<T, true> : maxima<T, false>;
    return run(windows, reinterpret_cast<const T*>(x), reinterpret_cast<const T*>(t), reinterpret_cast<T*>(out),
               reinterpret_cast<T*>(tangents), winners);
  });
}

bool given_pullback(const GivenWindows& windows, DType dtype, const std::uint8_t* winners, const char* g, char* dx,
                    std::vector<double>& sums) {
  return with_type(dtype, [&]<class T>(T) {
    return pulled<T>(windows, winners, reinterpret_cast<const T*>(g), reinterpret_cast<T*>(dx), sums);
  });
}

}  // namespace halfulp
