// kept_roofs.cpp: keeps measured roofs in the cache folder, a file for each kind of hardware. A
// file that cannot be read or written costs a measurement, and is no error.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/cache_folder.hpp"
#include "roofline/roofs.hpp"

namespace attacca {

namespace roofline {

namespace {

constexpr const char* kFirstLine = "attacca roofs 2: ";
constexpr const char* kLastLine = "end\n";

struct Figure {
  const char* name;
  double Roofs::*value;
};
constexpr Figure kFigures[] = {{"read", &Roofs::read},
                               {"copy", &Roofs::copy},
                               {"cache", &Roofs::cache},
                               {"launch_us", &Roofs::launch_us},
                               {"graph_us", &Roofs::graph_us},
                               {"node_us", &Roofs::node_us},
                               {"early_node_us", &Roofs::early_node_us},
                               {"persistent_us", &Roofs::persistent_us},
                               {"step_us", &Roofs::step_us},
                               {"barrier_us", &Roofs::barrier_us},
                               {"device_launch_us", &Roofs::device_launch_us},
                               {"tiny_us", &Roofs::tiny_us}};
constexpr std::pair<const char*, ByWidth Roofs::*> kByWidth[] = {{"branch_us", &Roofs::branch_us},
                                                                 {"root_us", &Roofs::root_us}};

/// All figures of roofs with their names, in one order.
template <class RoofsType, class Take>
void each_figure(RoofsType& roofs, const Take& take) {
  for (const Figure& figure : kFigures) take(std::string_view(figure.name), roofs.*figure.value);
  for (const auto& [name, values] : kByWidth)
    for (std::size_t at = 0; at < kForkWidths.size(); ++at)
      take(fmt::format("{}_of_{}", name, kForkWidths[at]), (roofs.*values)[at]);
  for (int at = 0; at < kArithmetics; ++at)
    take(std::string_view(arithmetic_name(static_cast<Arithmetic>(at))),
         roofs.flops[static_cast<std::size_t>(at)]);
}

std::filesystem::path file_for(const std::string& hardware) {
  const std::filesystem::path folder = core::cache_folder();
  if (folder.empty()) return {};
  std::string name = hardware;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '-';
  return folder / "roofs" / (name + ".txt");
}

}  // namespace

std::string roofs_text(const Roofs& roofs) {
  std::string text = kFirstLine + roofs.device + "\n";
  each_figure(roofs, [&](std::string_view name, double value) {
    text += fmt::format("{} {}\n", name, value);
  });
  return text + kLastLine;
}

std::optional<Roofs> read_roofs(std::string_view text) {
  const auto next_line = [&] {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
  };
  Roofs roofs;
  std::string_view first = next_line();
  if (!first.starts_with(kFirstLine)) return {};
  roofs.device = first.substr(std::string_view(kFirstLine).size());
  bool is_good = true;
  each_figure(roofs, [&](std::string_view name, double& value) {
    const std::string_view line = next_line();
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") return void(is_good = false);
    const std::string_view number = line.substr(name.size() + 1);
    const char* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, value);
    is_good &= read.ec == std::errc() && read.ptr == end && value >= 0 && value < 1e300;
  });
  if (!is_good || text != kLastLine) return {};
  return roofs;
}

}  // namespace roofline

std::optional<Roofs> kept_roofs(const Device& device) {
  const std::string hardware = roofline::hardware_name(device);
  const std::filesystem::path path = roofline::file_for(hardware);
  if (path.empty()) return {};
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::optional<Roofs> kept = roofline::read_roofs(text);
  if (!kept || kept->device != hardware) return {};
  return *kept;
}

Roofs roofs_of(const Device& device, const RoofProgress& progress) {
  if (const std::optional<Roofs> kept = kept_roofs(device)) return *kept;
  const Roofs roofs = measure_roofs(device, progress);
  keep_roofs(roofs);
  return roofs;
}

bool keep_roofs(const Roofs& roofs) {
  const std::filesystem::path path = roofline::file_for(roofs.device);
  if (path.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  // Another process may read it at the same time, so it appears whole.
  const std::filesystem::path whole = path.string() + ".new";
  {
    std::ofstream file(whole, std::ios::binary);
    if (!(file << roofline::roofs_text(roofs)).flush()) return false;
  }
  std::filesystem::rename(whole, path, ignored);
  return !ignored;
}

}  // namespace attacca
