//! Operator families: each one a contract, a fused group of graph ops and a schedule in Tile IR.

mod family;

pub use family::Family;
