// The way of finished rows into the arrays of the caller: values and their payloads.
#pragma once

#include <cstddef>
#include <vector>

#include "max/row_band.hpp"

namespace halfulp {

class RowEmitter {
 public:
  RowEmitter(const MaxPlan& plan, const CellType& type, const Coordinates& coordinates, Payload payload, Index lanes,
             Index row_length);

  void set_plane(const MaxPlane& plane) noexcept { plane_ = &plane; }

  // Writes the rows of one slice; `real` says whether the axes before a have cells.
  void slice(Index* output, int a, const char* value, const char* pair, bool real, const std::vector<Index>& lengths);
  void row(const Index* output, const char* value, const char* pair, bool real);

 private:
  template <class P>
  void write_payload(const Index* output, const P* pair);
  template <class I, class P>
  void write_integers(char* target, Index stride, const P* pair, Index start, bool placed);
  void clear_empty(const Index* output, bool real);

  const MaxPlan& plan_;
  CellType type_;
  const Coordinates& coordinates_;
  Payload payload_;
  Index lanes_;
  int last_;
  Index row_length_;
  std::vector<std::int64_t> starts_;
  std::vector<std::byte> integers_;
  const MaxPlane* plane_ = nullptr;
};

}  // namespace halfulp
