//! The foreign assembler and disassembler for PTX, where they are installed, and what they say about a kernel.
//!
//! Both are programs of their vendor that this repository neither contains nor needs for anything but checking:
//! `cargo xtask tools` installs them. [`Ptxas`] assembles a text and reports resources, [`Nvdisasm`] shows the machine
//! code, [`sass`] counts what is in it. A missing program is [`Error::Absent`].

mod error;
mod nvdisasm;
mod place;
mod ptxas;
pub mod sass;

pub use error::{Error, Result};
pub use nvdisasm::Nvdisasm;
pub use place::{FLOOR, FOLDER};
pub use ptxas::{Assembled, Message, Ptxas, Resources, Severity};
