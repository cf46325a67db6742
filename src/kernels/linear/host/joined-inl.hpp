// joined-inl.hpp: the sums of sections of columns on their way into a tile's results; see
// integer_tiles.hpp. Included once for each Highway target.
#include "kernels/host/simd.hpp"

#include <hwy/highway.h>

#include "kernels/linear/host/integer_tiles.hpp"

#if defined(ATTACCA_JOINED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_JOINED_INL
#undef ATTACCA_JOINED_INL
#else
#define ATTACCA_JOINED_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows of weights are the lanes of D.
template <class D, unsigned count>
struct Joined {
  const IntegerTile& tile;
  float* out;
  hn::Vec<D> third[count];

  HWY_INLINE Joined(const IntegerTile& of, float* to) : tile(of), out(to) {
#pragma GCC unroll 8
    for (hn::Vec<D>& sum : third) sum = hn::Zero(D());
  }
  /// The next section, from the first on. `sum` begins anew.
  HWY_INLINE void take(std::uint32_t section, hn::Vec<D> (&sum)[count]) {
    const D d;
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) {
      float* to = out + i * kTileOutputs;
      if (section == 2)
        third[i] = sum[i];
      else if (section == 3)
        hn::StoreU(hn::Add(hn::LoadU(d, to), hn::Add(third[i], sum[i])), d, to);
      else if (section == 0 && !tile.adds)
        hn::StoreU(sum[i], d, to);
      else
        hn::StoreU(hn::Add(hn::LoadU(d, to), sum[i]), d, to);
      sum[i] = hn::Zero(d);
    }
  }
};

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
