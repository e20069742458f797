#include "explore/planted.hpp"
#include "explore/search.hpp"

int main(int argc, char** argv) {
  using namespace godwit::explore;
  return explore(argc, argv, {planted_count(), plant});
}
