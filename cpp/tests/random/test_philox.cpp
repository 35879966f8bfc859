// The published answers of Philox4x32-10, and masks that do not depend on where they begin.
#include "halfulp/philox.hpp"

#include <vector>

#include "check.hpp"

using namespace halfulp;

namespace {

using Block = std::array<std::uint32_t, 4>;

void known_answers() {
  CHECK((philox({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK((philox({ones, ones, ones, ones}, {ones, ones}) == Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
         Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

void masks_are_pieces_of_one() {
  const Stream stream{7, 3, 2};
  constexpr std::int64_t count = 1000;
  std::vector<std::uint32_t> whole(count), piece(count);
  keep_mask<std::uint32_t>(stream, 5, std::uint64_t{1} << 31, 9u, whole.data(), count);
  for (std::int64_t begin : {0, 1, 3, 64, 777}) {
    keep_mask<std::uint32_t>(stream, 5 + static_cast<std::uint64_t>(begin), std::uint64_t{1} << 31, 9u, piece.data(),
                             count - begin);
    bool same = true;
    for (std::int64_t i = begin; i < count; ++i) same = same && piece[i - begin] == whole[i];
    CHECK(same);
  }
  std::vector<std::uint16_t> narrow(count);
  keep_mask<std::uint16_t>(stream, 5, std::uint64_t{1} << 32, std::uint16_t{1}, narrow.data(), count);
  for (std::uint16_t cell : narrow) CHECK(cell == 0);  // a threshold of 2^32 keeps nothing
}

}  // namespace

int main() {
  known_answers();
  masks_are_pieces_of_one();
  return halfulp::tests::failures() == 0 ? 0 : 1;
}
