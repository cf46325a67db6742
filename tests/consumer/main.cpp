// The smallest program that uses an installed attacca: it prints the version of the headers it was
// compiled with.
#include <attacca/attacca.hpp>

#include <cstdio>

int main() {
  std::printf("attacca %s\n", attacca::version());
  return 0;
}
