// roofs_fuzz.cpp: reads any bytes as kept roofs. What is read is finite, and reads back as it was
// when it is written again.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "roofline/roofs.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attacca;
  const auto read = roofline::read_roofs({reinterpret_cast<const char*>(data), size});
  if (!read) return 0;
  if (!std::isfinite(read->read) || read->node_us < 0) std::abort();
  const auto again = roofline::read_roofs(roofline::roofs_text(*read));
  if (!again || roofline::roofs_text(*again) != roofline::roofs_text(*read)) std::abort();
  return 0;
}
