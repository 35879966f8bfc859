// Rows that are made in a cache and written past it.
#pragma once

#include <algorithm>

#include "base/row_buffer.hpp"
#include "base/stream_kernels.hpp"

namespace halfulp {

// Writes past the caches by way of a stage: rows that are made there one after the other.
class Stage {
 public:
  static constexpr Index kBytes = Index{1} << 13;
  // For rows of at most so many bytes.
  Stage(bool stream, Index row_bytes) : rows_(stream ? std::max<Index>(1, kBytes / std::max<Index>(1, row_bytes)) : 0) {
    room_ = rows_ * row_bytes;
    buffer_.assign(room_, 0);
  }
  // Where a row goes that belongs to `target`; rows follow each other there.
  char* row(char* target, Index bytes) {
    if (rows_ == 0) return target;
    if (held_ > 0 && (held_ + bytes > room_ || target != target_ + held_)) flush();
    if (held_ == 0) target_ = target;
    held_ += bytes;
    return buffer_.data() + held_ - bytes;
  }
  void flush() {
    if (held_ > 0) select_stream_kernels().copy(buffer_.data(), target_, held_);
    held_ = 0;
  }
  // What must follow before others read the rows, or before they are written once more.
  void finish() {
    flush();
    if (rows_ > 0) select_stream_kernels().finish();
  }

 private:
  Index rows_, room_ = 0;
  RowBuffer<char> buffer_;
  char* target_ = nullptr;
  Index held_ = 0;
};

inline bool streams(const ArrayView& out) {
  return out.count() * static_cast<Index>(item_size(out.dtype)) >= kStreamBytes;
}

}  // namespace halfulp
