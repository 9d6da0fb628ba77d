//! Building nodes whose result types follow from their operands.

use super::fault::TypeFault;
use super::module::{Builder, Value};
use super::ops::Op;
use super::typing::{infer, infer_split};
use crate::types::Format;

impl Builder {
    /// Adds a node and gives its first result. `open` is the format of the results whose format the op leaves open.
    ///
    /// # Errors
    /// If an operand's type, an attribute or `open` does not fit the op; nothing is added then.
    pub fn emit(&mut self, op: Op, open: Format) -> Result<Value, TypeFault> {
        self.emit_split(op, &[], open)
    }

    /// [`Builder::emit`] for an op whose result's trailing dimensions are open (`linear`): they are `tail`.
    ///
    /// # Errors
    /// As [`Builder::emit`], and if `tail` does not fit.
    pub fn emit_split(&mut self, op: Op, tail: &[usize], open: Format) -> Result<Value, TypeFault> {
        let types = infer_split(&op, self.types(), tail, open)?;
        // Every op has a result, and `push` numbers it like this.
        let first = Value(self.types().len() as u32);
        self.push(op, types);
        Ok(first)
    }

    /// Adds a node and gives all its results.
    ///
    /// # Errors
    /// As [`Builder::emit`].
    pub fn emit_many(&mut self, op: Op, open: Format) -> Result<Vec<Value>, TypeFault> {
        let types = infer(&op, self.types(), open)?;
        Ok(self.push(op, types))
    }
}
