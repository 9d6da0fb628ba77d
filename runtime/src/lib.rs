//! Executes an artifact: memory, workers, caches, micro-kernels, sampling.
