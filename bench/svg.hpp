// svg.hpp: what the pictures of benchmarks share: escaped text, axes and the labels of their ticks.
#pragma once

#include <cmath>
#include <string>
#include <vector>

namespace bench {

/// Text inside an element of XML. Control characters, which XML does not allow, are left out.
std::string escaped(const std::string& text);

/// A few characters: 0.5, 250, 64Ki for a power of two, 1.5M.
std::string label(double value);

/// Values along one side of the picture.
struct Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::vector<double> ticks{};

  /// 0 at `low`, 1 at `high`.
  double share(double value) const {
    return is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

/// From `low` or a little less to `high` or a little more, with ticks at round values.
Axis linear_axis(double low, double high);

}  // namespace bench
