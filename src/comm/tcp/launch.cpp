// launch.cpp: reads the variables of torchrun and of srun.
#include "comm/tcp/launch.hpp"

#include <fmt/core.h>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <limits>

namespace attacca::comm {

namespace {

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (!environment_(name)) return false;
    return true;
  }
  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value ? value : "";
  }
  std::int64_t number(const char* name, std::int64_t least, std::int64_t most) const {
    const std::string value = text(name);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least ||
        number > most)
      throw BadArgument(fmt::format("the variable {} is '{}'; it must be a number from {} to {}",
                                    name, value, least, most));
    return number;
  }

 private:
  const Environment& environment_;
};

constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kMostPort = 65535;

Launch numbers(const Variables& variables, const char* rank, const char* size, const char* local) {
  Launch launch;
  launch.size = static_cast<int>(variables.number(size, 1, kMostRanks));
  launch.rank = static_cast<int>(variables.number(rank, 0, launch.size - 1));
  if (variables.has({local}))
    launch.local_rank = static_cast<int>(variables.number(local, 0, launch.size - 1));
  return launch;
}

/// A port below those that the system gives away, the same for all processes of a step.
std::uint16_t port_of_step(const Variables& variables) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 64;
  const std::int64_t job = variables.number("SLURM_JOB_ID", 0, kMost);
  const std::int64_t step =
      variables.has({"SLURM_STEP_ID"}) ? variables.number("SLURM_STEP_ID", 0, kMost) : 0;
  return static_cast<std::uint16_t>(12000 + (job * 31 + step) % 20000);
}

}  // namespace

std::string first_host(std::string_view list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const std::size_t end = list.find(']', at);
    if (end == std::string_view::npos)
      throw BadArgument(fmt::format("the list of machines '{}' has a [ without its ]", list));
    const std::string_view numbers = list.substr(at + 1, end - at - 1);
    host += numbers.substr(0, numbers.find_first_of("-,"));
    at = end;
  }
  if (host.empty()) throw BadArgument(fmt::format("the list of machines '{}' names none", list));
  return host;
}

std::optional<Launch> find_launch(const Environment& environment) {
  const Variables variables(environment);
  std::optional<Launch> launch;
  if (variables.has({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})) {
    launch = numbers(variables, "RANK", "WORLD_SIZE", "LOCAL_RANK");
    launch->address = variables.text("MASTER_ADDR");
    // torchrun's agent may listen at the port itself.
    const bool is_taken = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    launch->port = static_cast<std::uint16_t>(
        variables.number("MASTER_PORT", 1, is_taken ? kMostPort - 1 : kMostPort) + is_taken);
  } else if (variables.has({"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"})) {
    launch = numbers(variables, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID");
    launch->address = first_host(variables.text("SLURM_STEP_NODELIST"));
    launch->port = port_of_step(variables);
  }
  if (launch && variables.has({"ATTACCA_PORT"}))
    launch->port = static_cast<std::uint16_t>(variables.number("ATTACCA_PORT", 1, kMostPort));
  return launch;
}

}  // namespace attacca::comm

namespace attacca {

std::optional<Launch> find_launch() {
  return comm::find_launch([](const char* name) { return std::getenv(name); });
}

}  // namespace attacca
