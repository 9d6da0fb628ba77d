//! Executes an artifact: memory, workers, caches, micro-kernels, sampling. Contains no compiler.

mod code;
mod engine;
mod error;
mod generate;
mod instance;
mod memory;
pub mod micro;
mod sampler;
mod weights;
mod workers;

pub use code::{Code, host_target};
pub use engine::{Engine, EngineOptions, Feed};
pub use error::{Error, Result};
pub use generate::{Finish, Generated, Request, generate};
pub use instance::{Instance, Loaded, Output, OutputValues};
pub use sampler::{Purpose, Sampler, Sampling, argmax, uniform};
pub use weights::Weights;
