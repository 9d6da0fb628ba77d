//! The mark that a module passed its verifier: backends accept nothing else.

use std::ops::Deref;

/// A module that its level's verifier accepted. It can be read but not changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified<M>(M);

impl<M> Verified<M> {
    /// Only verifiers call this, after a clean pass.
    pub(crate) fn new(module: M) -> Self {
        Verified(module)
    }
    /// Gives the module back for changing; it must be verified anew.
    pub fn into_inner(self) -> M {
        self.0
    }
}

impl<M> Deref for Verified<M> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.0
    }
}
