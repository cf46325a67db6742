// mpi_all_reduce.cpp: a program that mpirun starts for `attacca bench ranks`: all-reduces of
// attacca and of the MPI library, in turn. Rank 0 writes a line for each size: bytes, then the 10th
// percentile, median and 90th percentile of both, in microseconds.
#include <fmt/core.h>
#include <mpi.h>
#include <attacca/mpi.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "harness.hpp"

int main(int count, char** arguments) {
  const int samples = count > 1 ? std::atoi(arguments[1]) : 21;
  const attacca::Group group = attacca::join_mpi();
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4} << 10, std::size_t{64} << 10,
                                  std::size_t{1} << 20, std::size_t{16} << 20}) {
    std::vector<float> values(bytes / sizeof(float)), sum(values.size());
    const int times = static_cast<int>(std::clamp<std::size_t>((8u << 20) / bytes, 1, 300));
    const attacca::Exchange ours = group.all_reduce<float>(values, std::span(sum));
    std::vector<double> our_times, their_times;
    for (int sample = 0; sample <= samples; ++sample) {
      group.barrier().run();
      const double our_time = bench::microseconds([&] {
        for (int at = 0; at < times; ++at) ours.run();
      });
      group.barrier().run();
      const double their_time = bench::microseconds([&] {
        for (int at = 0; at < times; ++at)
          MPI_Allreduce(values.data(), sum.data(), static_cast<int>(values.size()), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD);
      });
      if (sample == 0) continue;  // a warm-up
      our_times.push_back(our_time / times);
      their_times.push_back(their_time / times);
    }
    if (group.rank() != 0) continue;
    const bench::Summary a = bench::summarize(our_times), b = bench::summarize(their_times);
    fmt::print("{} {} {} {} {} {} {}\n", bytes, a.p10, a.median, a.p90, b.p10, b.median, b.p90);
  }
  return 0;
}
