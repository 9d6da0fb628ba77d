//! Rules that hold for every op of the table.

use crate::zoo::{Shape, zoo};
use std::collections::BTreeSet;
use tessera_ir::graph::Op;
use tessera_ir::graph::interp::{Data, Tensor};

/// Part `i` of `n` equal parts, as bits.
fn part(tensor: &Tensor, i: usize, n: usize) -> Vec<u64> {
    let len = tensor.data.len() / n;
    let span = i * len..(i + 1) * len;
    match &tensor.data {
        Data::F32(v) => v[span].iter().map(|v| u64::from(v.to_bits())).collect(),
        Data::I32(v) => v[span].iter().map(|v| *v as u64).collect(),
        Data::I64(v) => v[span].iter().map(|v| *v as u64).collect(),
    }
}

#[test]
fn every_op_of_the_table_has_a_case() {
    let covered: BTreeSet<&str> = zoo(&[0]).iter().map(|a| a.op).collect();
    assert_eq!(covered, Op::MNEMONICS.iter().copied().collect());
}

#[test]
fn every_op_takes_no_rows() {
    for animal in zoo(&[]) {
        let (op, shape) = (animal.op, animal.shape);
        for (name, tensor) in animal.case.run() {
            let rows = if shape == Shape::Rows { 0 } else { tensor.shape[0] };
            assert_eq!(tensor.shape[0], rows, "{op}: {name}");
            assert_eq!(tensor.data.len(), tensor.shape.iter().product::<usize>(), "{op}: {name}");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_company() {
    let alone: Vec<_> = (0..8).map(|r| zoo(&[r])).collect();
    let alone: Vec<Vec<_>> =
        alone.into_iter().map(|z| z.into_iter().map(|a| a.case.run()).collect()).collect();
    for rows in [vec![0, 1, 2, 3, 4, 5, 6, 7], vec![5, 2, 7], vec![6, 1]] {
        for (i, animal) in zoo(&rows).into_iter().enumerate() {
            let (op, shape) = (animal.op, animal.shape);
            for (name, tensor) in animal.case.run() {
                for (place, &row) in rows.iter().enumerate() {
                    let single = &alone[row][i][&name];
                    let (got, want) = match shape {
                        Shape::Rows => (part(&tensor, place, rows.len()), part(single, 0, 1)),
                        Shape::Slots => (part(&tensor, row, 8), part(single, row, 8)),
                    };
                    assert_eq!(got, want, "{op}: {name} of row {row} among {rows:?}");
                }
            }
        }
    }
}
