//! The kernel interpreter: every op against hand-worked or f64 values, and what it refuses to compute.

#[path = "tile/device.rs"]
mod device;
#[path = "tile/lanes.rs"]
mod lanes;
#[path = "tile/ops.rs"]
mod ops;
#[path = "tile/product.rs"]
mod product;
#[path = "tile/refused.rs"]
mod refused;
#[path = "tile/refused_device.rs"]
mod refused_device;
#[path = "tile/support.rs"]
mod support;
