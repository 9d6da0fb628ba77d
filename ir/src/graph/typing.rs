//! Types of results: what an op's operands and attributes say about them, for builders and the verifier alike.
//!
//! The rules stand once, in `typing/rules.rs`, as shape patterns over named dimensions. From what they give,
//! [`infer`] makes the results' types and [`result_types`] checks those that a node declares.

mod attrs;
mod matrix;
mod pattern;
mod rules;
mod signature;
mod well_formed;

use super::fault::{Rule, Subject, TypeFault};
use super::ops::Op;
use crate::types::{Dim, Format, Layout, TensorType};
use rules::signature;
use std::borrow::Borrow;

pub(super) use signature::{Role, Signature, Use};
pub(crate) use well_formed::type_fault;

/// Types of the results of `op`, whose operands are values numbered in `types`.
///
/// `open` is the format of those results whose format the op leaves to its user (a bf16 or f32 result, the group format of
/// `quantize`); the others have the format that the op gives them. A result whose trailing dimensions the op leaves open
/// (`linear`) has one trailing dimension.
///
/// # Errors
/// The first fault, if an operand's type, an attribute or `open` does not fit the op.
pub fn infer<T: Borrow<TensorType>>(
    op: &Op,
    types: &[T],
    open: Format,
) -> Result<Vec<TensorType>, TypeFault> {
    infer_split(op, types, &[], open)
}

/// [`infer`] with the trailing dimensions of the results whose trailing dimensions the op leaves open.
///
/// # Errors
/// The first fault, if an operand's type, an attribute, `tail` or `open` does not fit the op.
pub fn infer_split<T: Borrow<TensorType>>(
    op: &Op,
    types: &[T],
    tail: &[usize],
    open: Format,
) -> Result<Vec<TensorType>, TypeFault> {
    let found = signature(op, types);
    if let Some(fault) = found.faults.first() {
        return Err(fault.clone());
    }
    let tail: Vec<Dim> = tail.iter().copied().map(Dim::Fixed).collect();
    let results: Vec<TensorType> = found.results.iter().map(|r| r.suggest(&tail, open)).collect();
    match declared_faults(op, &found, &results).into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(results),
    }
}

/// Checks the types that a node declares for the results of `op`, whose operands are values numbered in `types`.
///
/// # Errors
/// The first fault of operands, attributes or declared types.
pub fn result_types<T: Borrow<TensorType>>(
    op: &Op,
    types: &[T],
    declared: &[TensorType],
) -> Result<(), TypeFault> {
    let found = check(op, types, declared);
    found.faults.into_iter().next().map_or(Ok(()), Err)
}

/// Everything that the types say about one node, all its faults included.
pub(super) fn check<T: Borrow<TensorType>>(op: &Op, types: &[T], declared: &[TensorType]) -> Signature {
    let mut found = signature(op, types);
    let faults = declared_faults(op, &found, declared);
    found.faults.extend(faults);
    found
}

fn declared_faults(op: &Op, found: &Signature, declared: &[TensorType]) -> Vec<TypeFault> {
    let fault = |rule, subject, message| TypeFault { rule, mnemonic: op.mnemonic(), subject, message };
    let mut faults = Vec::new();
    if declared.len() != found.results.len() {
        let message = format!("gives {} result(s), not {}", found.results.len(), declared.len());
        faults.push(fault(Rule::Result, Subject::Node, message));
    }
    for (i, ty) in declared.iter().enumerate() {
        if let Some(message) = type_fault(ty) {
            faults.push(fault(Rule::Type, Subject::Result(i), message));
        }
    }
    for (i, (rule, ty)) in found.results.iter().zip(declared).enumerate() {
        if !rule.shape.admits(&ty.shape) {
            let message = format!("has type {ty}, but its shape is {}", rule.shape);
            faults.push(fault(Rule::Result, Subject::Result(i), message));
        }
        if !rule.formats.is_empty() && !rule.formats.contains(&ty.format) {
            let message = format!("has type {ty}, but its format is {}", signature::one_of(&rule.formats));
            faults.push(fault(Rule::Result, Subject::Result(i), message));
        }
        if ty.layout != Layout::Rows {
            let message = format!("has layout {}, but results are row-major", ty.layout.name());
            faults.push(fault(Rule::Result, Subject::Result(i), message));
        }
    }
    faults
}
