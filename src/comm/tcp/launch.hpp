// launch.hpp: variables of launchers, from any environment.
#pragma once

#include <attacca/launch.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace attacca::comm {

/// Returns null for a variable that is not set.
using Environment = std::function<const char*(const char*)>;

std::optional<Launch> find_launch(const Environment& environment);

/// The first machine of a list as Slurm writes it: "node03" of "node[03-07,12],other".
std::string first_host(std::string_view list);

}  // namespace attacca::comm
