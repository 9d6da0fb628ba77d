//! Executes an artifact: memory, workers, caches, micro-kernels, sampling.

pub mod micro;
