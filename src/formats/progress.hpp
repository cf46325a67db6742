// progress.hpp: how whoever opens a model hears of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace attacca::formats {

/// Called while a model is opened, with a task's name, the units done and the total.
using Progress =
    std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total)>;

}  // namespace attacca::formats
