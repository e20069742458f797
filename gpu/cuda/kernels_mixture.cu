// For nvcc; host compilers take the .cpp itself.
#include "cuda/kernels_mixture.cpp"
